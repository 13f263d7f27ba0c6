/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images: root file systems, each one read-only EROFS file with all layers merged, in a cache in the state
 * directory that all users of the directory share. An image is named by its digest and by any number of
 * names. An open image is locked: nobody's prune or remove takes its file away.
 */
#ifndef CCHV_IMAGE_H
#define CCHV_IMAGE_H

#include <stdint.h>

#include <cchv/ctx.h>
#include <cchv/error.h>
#include <cchv/findings.h>
#include <cchv/list.h>
#include <cchv/version.h>

CCHV_BEGIN_DECLS

typedef struct cchv_image_source cchv_image_source;
typedef struct cchv_progress cchv_progress;
typedef struct cchv_image cchv_image;

/* ---- what to import ---- */

/**
 * cchv_image_source_new() - make an empty source
 * @ret_source: receives the object (free it with cchv_image_source_free())
 *
 * Valid in: always.
 * Threads:  one at a time per source.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_image_source_new(cchv_image_source **ret_source);

/**
 * cchv_image_source_add() - say what to import
 * @source: the source
 * @text:   one of "dir:PATH" (a directory), "tar:PATH" (a layer, plain or compressed by gzip, xz,
 *          zstd or bzip2), "oci:PATH" or "oci:PATH:TAG" (an OCI image layout), "docker://REFERENCE" (a
 *          registry, by skopeo, with its configuration and the user's credentials; one on the
 *          loopback needs no TLS); PATH is absolute
 *
 * Only tar may be added several times: the layers are merged in that order, the lowest first, their
 * whiteouts applied. In a directory, names that begin with ".wh." are names like any other, and what
 * is mounted on it is not entered.
 *
 * Valid in: always.
 * Threads:  one at a time per source.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_NOMEM; CCHV_ERR_INVALID when @text cannot be parsed or does not fit
 *         what was added before; CCHV_ERR_LIMIT above 1024 layers; CCHV_ERR_UNSUPPORTED for an
 *         unknown scheme.
 */
int cchv_image_source_add(cchv_image_source *source, const char *text);

/**
 * cchv_image_source_free() - free a source
 * @source: the source; NULL is allowed
 *
 * Valid in: always.
 * Threads:  one at a time per source.
 * Since:    0.1
 */
void cchv_image_source_free(cchv_image_source *source);

/* ---- watching an import from another thread, or from an event loop ---- */

/**
 * cchv_progress_new() - make a progress to hand to an import
 * @ret_progress: receives the object (free it with cchv_progress_free())
 *
 * It serves one import.
 *
 * Valid in: always.
 * Threads:  any, also while the import runs.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID, CCHV_ERR_NOMEM; CCHV_ERR_SYSTEM when there is no fd left.
 */
int cchv_progress_new(cchv_progress **ret_progress);

/**
 * cchv_progress_get_fd() - lend an fd that tells of news
 * @progress: the progress
 *
 * Readable (POLLIN) when something has changed since the last get_done, get_total or get_phase; do
 * not read, write or close it.
 *
 * Valid in: always.
 * Threads:  any, also while the import runs.
 * Since:    0.1
 *
 * Return: the fd, valid until the progress is freed; CCHV_ERR_INVALID for NULL.
 */
int cchv_progress_get_fd(cchv_progress *progress);

/**
 * cchv_progress_get_done() - tell how far the current phase is
 * @progress: the progress
 *
 * Valid in: always.
 * Threads:  any, also while the import runs.
 * Since:    0.1
 *
 * Return: bytes; 0 before the start.
 */
uint64_t cchv_progress_get_done(cchv_progress *progress);

/**
 * cchv_progress_get_total() - tell the size of the current phase
 * @progress: the progress
 *
 * Valid in: always.
 * Threads:  any, also while the import runs.
 * Since:    0.1
 *
 * Return: bytes; 0 where it is not known.
 */
uint64_t cchv_progress_get_total(cchv_progress *progress);

/**
 * cchv_progress_get_phase() - lend the name of the current phase
 * @progress: the progress
 *
 * Valid in: always.
 * Threads:  any, also while the import runs.
 * Since:    0.1
 *
 * Return: "waiting" (for another import of the same image), "fetching", "unpacking", "building",
 *         "verifying", "storing" or "done", a string that lives for ever; NULL before the start.
 */
const char *cchv_progress_get_phase(cchv_progress *progress);

/**
 * cchv_progress_cancel() - end the import
 * @progress: the progress
 *
 * The import returns soon with CCHV_ERR_STATE and leaves nothing behind. An import that is handed a
 * cancelled progress ends at once.
 *
 * Valid in: always.
 * Threads:  any, also while the import runs.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_progress_cancel(cchv_progress *progress);

/**
 * cchv_progress_free() - free a progress
 * @progress: the progress; NULL is allowed; a running import keeps what it needs
 *
 * Valid in: always.
 * Threads:  any; no other call on this object may be running.
 * Since:    0.1
 */
void cchv_progress_free(cchv_progress *progress);

/* ---- the cache ---- */

/**
 * cchv_image_import() - bring an image into the cache
 * @ctx:       the context
 * @source:    what to import
 * @name:      name to give to it, 1 to 255 bytes without white space or control characters; one
 *             that exists moves to the new image; NULL for none (except that "docker://" is then
 *             named by its reference)
 * @progress:  NULL, or the progress to report to
 * @ret_image: NULL, or receives the image (free it with cchv_image_free())
 * @err:       NULL, or receives the error (free it with cchv_error_free())
 *
 * Blocks until the image is built, checked and stored, which can take minutes (cancel it by the
 * progress). What is in the cache already is not built again; two imports of one image at the same
 * time do the work once. A crash at any moment leaves nothing that is later taken for an image.
 *
 * Everything is kept: owners, modes, times, hard links, holes, device nodes, names of any bytes, and
 * of the extended attributes user.*, security.capability, POSIX ACLs and trusted.* but
 * trusted.overlay.*. What cannot be kept is refused by name. All but a directory needs root.
 *
 * Valid in: always; @source must not be changed meanwhile.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_INVALID; CCHV_ERR_NOT_FOUND for a missing source, tag, platform or
 *         tool (mkfs.erofs, skopeo, gzip, ...), which the error names; CCHV_ERR_DENIED when it may
 *         not be read, or needs root; CCHV_ERR_STATE when it was cancelled; CCHV_ERR_LIMIT;
 *         CCHV_ERR_UNSUPPORTED for another platform, media type or kind of entry;
 *         CCHV_ERR_PROTOCOL when the source is malformed, changes meanwhile, or a tool built
 *         something else than it was told; CCHV_ERR_TIMEOUT when a tool is stuck; CCHV_ERR_SYSTEM
 *         (a full disk, the failure of a tool) or CCHV_ERR_NOMEM.
 */
int cchv_image_import(cchv_ctx *ctx, cchv_image_source *source, const char *name,
		      cchv_progress *progress, cchv_image **ret_image, cchv_error **err);

/**
 * cchv_image_open() - open an image
 * @ctx:       the context
 * @name:      a name, a digest ("sha256:..." or at least 12 of its hex digits), or the absolute
 *             path of an .erofs file, which is used where it lies
 * @ret_image: receives the image (free it with cchv_image_free())
 * @err:       NULL, or receives the error (free it with cchv_error_free())
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_NOT_FOUND; CCHV_ERR_INVALID when a short digest fits several images,
 *         or the path is no regular file or not of a multiple of 512 bytes; CCHV_ERR_PROTOCOL when
 *         it is not an EROFS image, or cut short; CCHV_ERR_UNSUPPORTED for blocks of another size
 *         than 4096; CCHV_ERR_DENIED, CCHV_ERR_SYSTEM or CCHV_ERR_NOMEM.
 */
int cchv_image_open(cchv_ctx *ctx, const char *name, cchv_image **ret_image, cchv_error **err);

/**
 * cchv_image_unpack_upper() - make the upper directory of an overlay of a layer
 * @fd:        a tar file (pax, ustar, GNU; not compressed) in the form of a layer of an OCI image, as
 *             cchv_container_copy_changes() writes it, read from its current place; lent for the call
 * @directory: absolute path of an existing directory, which nothing in the layer can leave, and which
 *             nobody else changes meanwhile
 * @keep:      0 empties the directory first; 1 keeps what the layer neither names nor hides
 * @max_files: the most files, directories and nodes that the layer may have, hard links and marks of
 *             what was removed not counted; 0 is no limit
 * @err:       NULL, or receives the error (free it with cchv_error_free())
 *
 * Whiteouts become devices 0:0, opaque directories get the attribute trusted.overlay.opaque: mounted
 * over the same images as before, it is the file system that the container saw. Owners, modes, times,
 * links, nodes, holes and attributes are kept as by cchv_image_import(). Needs root. Returns when all
 * of it is on the disk; what was unpacked before an error stays.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_INVALID; CCHV_ERR_NOT_FOUND without the directory; CCHV_ERR_DENIED;
 *         CCHV_ERR_PROTOCOL when the layer is malformed, or a name in it leads out; CCHV_ERR_LIMIT for
 *         more than @max_files, or a name, path or attribute that is too long;
 *         CCHV_ERR_UNSUPPORTED for a kind of entry that cannot be kept; CCHV_ERR_SYSTEM or
 *         CCHV_ERR_NOMEM.
 */
int cchv_image_unpack_upper(int fd, const char *directory, int keep, uint64_t max_files, cchv_error **err);

/**
 * cchv_image_list() - list the images of the cache
 * @ctx:       the context
 * @ret_names: receives every name, and the digest of each image without one, in order (free it with
 *             cchv_list_free()); cchv_image_open() opens each
 * @err:       NULL, or receives the error (free it with cchv_error_free())
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_DENIED, CCHV_ERR_SYSTEM or CCHV_ERR_NOMEM.
 */
int cchv_image_list(cchv_ctx *ctx, cchv_list **ret_names, cchv_error **err);

/**
 * cchv_image_remove() - remove a name, and the image with its last name
 * @ctx:  the context
 * @name: a name, or a digest (as for cchv_image_open()), which removes the image with all its names
 * @err:  NULL, or receives the error (free it with cchv_error_free())
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_NOT_FOUND; CCHV_ERR_EXISTS while the image is in use; CCHV_ERR_INVALID,
 *         CCHV_ERR_DENIED, CCHV_ERR_SYSTEM or CCHV_ERR_NOMEM.
 */
int cchv_image_remove(cchv_ctx *ctx, const char *name, cchv_error **err);

/**
 * cchv_image_prune() - remove images that nobody uses
 * @ctx:         the context
 * @max_age_s:   age in seconds since the last use from which an image without a name is removed; 0
 *               removes all of them
 * @ret_removed: NULL, or receives what was removed (free it with cchv_findings_free())
 * @err:         NULL, or receives the error (free it with cchv_error_free())
 *
 * Images with names stay. What an interrupted import left goes too.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_DENIED, CCHV_ERR_SYSTEM or CCHV_ERR_NOMEM.
 */
int cchv_image_prune(cchv_ctx *ctx, uint64_t max_age_s, cchv_findings **ret_removed, cchv_error **err);

/**
 * cchv_image_get_digest() - lend the image's digest
 * @image: the image
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: "sha256:" and 64 hex digits, the digest of its content and config, valid until the image
 *         is freed; for a file outside the cache that of the path, size and time; NULL for NULL.
 */
const char *cchv_image_get_digest(cchv_image *image);

/**
 * cchv_image_get_name() - lend the name that the image was opened or imported by
 * @image: the image
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: the name, valid until the image is freed; NULL where it was opened by digest or path.
 */
const char *cchv_image_get_name(cchv_image *image);

/**
 * cchv_image_get_path() - lend the path of the image's file
 * @image: the image
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: an absolute path, valid until the image is freed; NULL for NULL.
 */
const char *cchv_image_get_path(cchv_image *image);

/**
 * cchv_image_get_config_json() - lend the image's config
 * @image: the image
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: the "config" object of the OCI image specification (Entrypoint, Cmd, Env, WorkingDir,
 *         User, ...), "{}" where it has none, valid until the image is freed; NULL for NULL.
 */
const char *cchv_image_get_config_json(cchv_image *image);

/**
 * cchv_image_get_size() - tell the size of the image's file
 * @image: the image
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: bytes; 0 for NULL.
 */
uint64_t cchv_image_get_size(cchv_image *image);

/**
 * cchv_image_get_create_time() - tell when the image was brought into the cache
 * @image: the image
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: nanoseconds since the epoch (CLOCK_REALTIME); 0 for NULL.
 */
uint64_t cchv_image_get_create_time(cchv_image *image);

/**
 * cchv_image_free() - free an image's handle
 * @image: the image; NULL is allowed
 *
 * The cache keeps it. Containers that were made from it keep it in use.
 *
 * Valid in: always.
 * Threads:  any; no other call on this handle may be running.
 * Since:    0.1
 */
void cchv_image_free(cchv_image *image);

CCHV_END_DECLS

#endif /* CCHV_IMAGE_H */
