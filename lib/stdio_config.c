/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of streams: see <cchv/exec.h>. Enters: fds, paths, wishes. Leaves: struct cchv_stdio_config. */
#include "stdio_config.h"

#include <cchv/container.h>
#include <fcntl.h>
#include <string.h>

#include "base/export.h"
#include "base/fd.h"

const char *stdio_stream_name(int stream)
{
	static const char *const names[STDIO_STREAMS] = { "stdin", "stdout", "stderr" };

	return names[stream];
}

int stdio_stream_is_set(const struct stdio_stream *stream)
{
	return stream->fd >= 0 || stream->pipe || stream->attachable || stream->log_path;
}

CCHV_API int cchv_stdio_config_new(cchv_stdio_config **ret_config)
{
	cchv_stdio_config *c;

	if (!ret_config)
		return CCHV_ERR_INVALID;
	c = mem_zalloc(sizeof(*c));
	if (!c)
		return CCHV_ERR_NOMEM;
	for (int i = 0; i < STDIO_STREAMS; i++)
		c->streams[i].fd = -1;
	*ret_config = c;
	return CCHV_OK;
}

CCHV_API void cchv_stdio_config_free(cchv_stdio_config *config)
{
	if (!config)
		return;
	for (int i = 0; i < STDIO_STREAMS; i++) {
		fd_close(&config->streams[i].fd);
		free(config->streams[i].log_path);
	}
	free(config);
}

int stdio_config_copy(const cchv_stdio_config *config, cchv_stdio_config **ret_copy)
{
	cleanup_stdio_config cchv_stdio_config *c = NULL;
	int r = cchv_stdio_config_new(&c);

	for (int i = 0; r == CCHV_OK && config && i < STDIO_STREAMS; i++) {
		const struct stdio_stream *from = &config->streams[i];
		struct stdio_stream *to = &c->streams[i];

		to->pipe = from->pipe;
		to->attachable = from->attachable;
		to->log_max_bytes = from->log_max_bytes;
		r = mem_replace_string(&to->log_path, from->log_path);
		if (r == CCHV_OK && from->fd >= 0) {
			to->fd = fd_copy(from->fd);
			r = to->fd < 0 ? CCHV_ERR_SYSTEM : CCHV_OK;
		}
	}
	if (r < 0)
		return r;
	if (config) {
		c->rows = config->rows;
		c->cols = config->cols;
	}
	*ret_copy = steal(&c);
	return CCHV_OK;
}

static struct stdio_stream *find(cchv_stdio_config *config, int stream)
{
	return config && stream >= 0 && stream < STDIO_STREAMS ? &config->streams[stream] : NULL;
}

CCHV_API int cchv_stdio_config_set_fd(cchv_stdio_config *config, int stream, int fd)
{
	struct stdio_stream *s = find(config, stream);
	int copy;

	if (!s || fd < 0)
		return CCHV_ERR_INVALID;
	copy = fd_copy(fd);
	if (copy < 0)
		return CCHV_ERR_SYSTEM;
	fd_close(&s->fd);
	s->fd = copy;
	s->pipe = 0;
	return CCHV_OK;
}

CCHV_API int cchv_stdio_config_set_pipe(cchv_stdio_config *config, int stream)
{
	struct stdio_stream *s = find(config, stream);

	if (!s)
		return CCHV_ERR_INVALID;
	fd_close(&s->fd);
	free(steal(&s->log_path));
	s->attachable = 0;
	s->pipe = 1;
	return CCHV_OK;
}

CCHV_API int cchv_stdio_config_set_log(cchv_stdio_config *config, int stream, const char *path, uint64_t max_bytes)
{
	struct stdio_stream *s = find(config, stream);
	int r;

	if (!s || !path || path[0] != '/')
		return CCHV_ERR_INVALID;
	if (stream == CCHV_STDIN)
		return CCHV_ERR_UNSUPPORTED;
	r = mem_replace_string(&s->log_path, path);
	if (r < 0)
		return r;
	s->log_max_bytes = max_bytes;
	s->pipe = 0;
	return CCHV_OK;
}

CCHV_API int cchv_stdio_config_set_attachable(cchv_stdio_config *config, int stream)
{
	struct stdio_stream *s = find(config, stream);

	if (!s)
		return CCHV_ERR_INVALID;
	s->attachable = 1;
	s->pipe = 0;
	return CCHV_OK;
}

CCHV_API int cchv_stdio_config_set_tty_size(cchv_stdio_config *config, uint32_t rows, uint32_t cols)
{
	if (!config || rows < 1 || rows > 65535 || cols < 1 || cols > 65535)
		return CCHV_ERR_INVALID;
	config->rows = rows;
	config->cols = cols;
	return CCHV_OK;
}

static int check_direction(int stream, int fd, cchv_error **err)
{
	int mode = fcntl(fd, F_GETFL) & O_ACCMODE;

	if (mode == (stream == CCHV_STDIN ? O_WRONLY : O_RDONLY))
		return err_set(err, CCHV_ERR_INVALID, 0, "%s: the fd is not open for %s", stdio_stream_name(stream),
		               stream == CCHV_STDIN ? "reading" : "writing");
	return CCHV_OK;
}

int stdio_config_check(const cchv_stdio_config *config, int tty, cchv_error **err)
{
	const struct stdio_stream *out = &config->streams[CCHV_STDOUT], *errors = &config->streams[CCHV_STDERR];
	int r = CCHV_OK;

	if (tty && stdio_stream_is_set(errors))
		return err_set(err, CCHV_ERR_INVALID, 0, "stderr: with a terminal, stdout carries all output");
	if (out->log_path && errors->log_path && strcmp(out->log_path, errors->log_path) == 0 &&
	    out->log_max_bytes != errors->log_max_bytes)
		return err_set(err, CCHV_ERR_INVALID, 0, "log '%s': two different sizes", out->log_path);
	for (int i = 0; r == CCHV_OK && i < STDIO_STREAMS; i++)
		if (config->streams[i].fd >= 0)
			r = check_direction(i, config->streams[i].fd, err);
	return r;
}
