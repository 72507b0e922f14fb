/*
 * SQLite with a journal on tmpfs: transactions, an index, a rollback, a memory-mapped database.
 * libc: glibc
 * libs: -lsqlite3 -lm -ldl
 */
#include <sqlite3.h>

#include "test.h"

static sqlite3 *db;

static void run(const char *sql)
{
	char *error = NULL;

	if (sqlite3_exec(db, sql, NULL, NULL, &error) != SQLITE_OK) {
		printf("sqlite: %s: %s\n", sql, error);
		test_failures++;
		sqlite3_free(error);
	}
}

static long long number(const char *sql)
{
	sqlite3_stmt *statement;
	long long value = -1;

	MUST(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK);
	if (sqlite3_step(statement) == SQLITE_ROW)
		value = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return value;
}

int main(void)
{
	unlink("/tmp/test.db");
	MUST(sqlite3_open("/tmp/test.db", &db) == SQLITE_OK);
	run("pragma mmap_size = 67108864");
	run("create table t (id integer primary key, name text, x real)");
	run("begin");
	run("with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) "
	    "insert into t select i, 'name ' || (i % 97), i * 0.5 from n");
	run("commit");
	run("create index by_name on t (name)");
	CHECK_EQUAL(20000, number("select count(*) from t"));
	CHECK_EQUAL(207, number("select count(*) from t where name = 'name 5'"));
	run("begin");
	run("delete from t where id > 100");
	CHECK_EQUAL(100, number("select count(*) from t"));
	run("rollback");
	CHECK_EQUAL(20000, number("select count(*) from t"));
	run("delete from t where id % 2");
	run("vacuum");
	MUST(sqlite3_close(db) == SQLITE_OK);

	MUST(sqlite3_open("/tmp/test.db", &db) == SQLITE_OK);
	CHECK_EQUAL(100010000, number("select sum(id) from t"));
	CHECK_EQUAL(1, number("select count(*) = 1 from pragma_integrity_check where integrity_check = 'ok'"));
	sqlite3_close(db);
	test_end();
}
