/*
 * A stock interpreter, linked from Debian's static library, does real work: strings, closures, a garbage collector
 * that maps and unmaps, coroutines, file input and output.
 * libc: glibc
 * libs: -llua5.4 -lm -ldl
 */
#include <lua5.4/lauxlib.h>
#include <lua5.4/lua.h>
#include <lua5.4/lualib.h>

#include "test.h"

static const char program[] =
	"local t = {}\n"
	"for i = 1, 200000 do t[#t + 1] = ('item %d'):format(i % 1000) end\n"
	"local count = {}\n"
	"for _, s in ipairs(t) do count[s] = (count[s] or 0) + 1 end\n"
	"assert(count['item 7'] == 200)\n"
	"table.sort(t); assert(t[1] == 'item 0' and t[#t] == 'item 999')\n"
	"t = nil; collectgarbage(); assert(collectgarbage('count') < 20000)\n"
	"local co = coroutine.wrap(function() for i = 1, 1000 do coroutine.yield(i * i) end end)\n"
	"local sum = 0; for i = 1, 1000 do sum = sum + co() end; assert(sum == 333833500)\n"
	"local f = assert(io.open('/tmp/lua.txt', 'w'))\n"
	"for i = 1, 20000 do f:write(i, '\\n') end; f:close()\n"
	"local n = 0; for line in io.lines('/tmp/lua.txt') do n = n + tonumber(line) end; assert(n == 200010000)\n"
	"assert(os.rename('/tmp/lua.txt', '/tmp/lua2.txt') and os.remove('/tmp/lua2.txt'))\n"
	"assert(not io.open('/tmp/lua.txt'))\n"
	"local p = assert(io.popen('echo from a shell')); assert(p:read('a') == 'from a shell\\n'); p:close()\n"
	"assert(os.time() > 1e9 and os.clock() > 0)\n"
	"return 2^53 | 1, math.sqrt(2)\n";

int main(void)
{
	lua_State *l = luaL_newstate();

	MUST(l != NULL);
	luaL_openlibs(l);
	if (luaL_dostring(l, program)) {
		printf("lua: %s\n", lua_tostring(l, -1));
		return 1;
	}
	CHECK_EQUAL((1LL << 53) | 1, lua_tointeger(l, -2));
	CHECK(lua_tonumber(l, -1) > 1.4142 && lua_tonumber(l, -1) < 1.4143);
	lua_close(l);
	test_end();
}
