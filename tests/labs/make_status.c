/*
 * For `make grade` only: lets make end with the status of the command instead of its own 2.
 *
 * A failed recipe makes GNU make exit with 2, whatever the status was, and nothing in a makefile changes that. So the recipe is not
 * run by make's job machinery but by the function below, while make expands the recipe, which it does right before running it, when all
 * prerequisites are there:
 *
 *	$(exit-with-status-of COMMAND)
 *
 * runs COMMAND in a shell, with make's standard streams, and ends make the way that the command ended. Loaded for this one goal; where make
 * cannot load objects the recipe does without, make ends with 2 as it always did, and build/grade/status has the number.
 */
#include <gnumake.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int plugin_is_GPL_compatible;
int make_status_gmk_setup(void);

/* Variables that the makefile exports are in the environment of recipes, not in make's own: COMMAND must set what it needs. */
static char *exit_with_status_of(const char *name, unsigned int argc, char **argv)
{
	int status;

	(void)name;
	fflush(NULL);
	status = argc == 1 ? system(argv[0]) : -1;
	if (status == -1) {
		perror("make: cannot run the command");
		_exit(2);
	}
	if (WIFSIGNALED(status))
		_exit(128 + WTERMSIG(status));
	_exit(WEXITSTATUS(status));
}

int make_status_gmk_setup(void)
{
	gmk_add_function("exit-with-status-of", exit_with_status_of, 1, 1, GMK_FUNC_DEFAULT);
	return 1;
}
