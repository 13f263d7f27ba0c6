/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that are mounted EROFS images already. Enters: directories. Leaves: the files behind them. */
#ifndef SHIM_EROFS_LAYERS_H
#define SHIM_EROFS_LAYERS_H

#include "layer_list.h"

/* 1 and the images in the order of the layers, when each of the layers is the root of one; 0; CCHV_ERR_NOMEM. */
int erofs_layers_find(const struct layer_list *layers, struct layer_list *ret_images);

#endif
