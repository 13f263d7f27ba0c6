/* SPDX-License-Identifier: Apache-2.0 */
/* The commands, one file each; argv[0] is the command's name. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

int cmd_attach(int argc, char **argv);
int cmd_clone(int argc, char **argv);
int cmd_cp(int argc, char **argv);
int cmd_create(int argc, char **argv);
int cmd_events(int argc, char **argv);
int cmd_exec(int argc, char **argv);
int cmd_image(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_kill(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_monitor(int argc, char **argv); /* hidden: the owner of a container in the background */
int cmd_pause(int argc, char **argv);
int cmd_prune(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_snapshot(int argc, char **argv);
int cmd_start(int argc, char **argv);
int cmd_stats(int argc, char **argv);
int cmd_stop(int argc, char **argv);
int cmd_template(int argc, char **argv);
int cmd_unpause(int argc, char **argv);
int cmd_version(int argc, char **argv);
int cmd_wait(int argc, char **argv);

extern const char run_options_help[];
extern const char exec_options_help[];
extern const char exit_codes_help[];
/* help.c: of the commands whose files do not have it; NULL for those without options. */
const char *command_options_help(const char *command);

#endif
