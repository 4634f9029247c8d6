// Lua 5.1 (Debian: liblua5.1-0-dev), for the simulation alone.
#ifndef HERALD_CLUA_H
#define HERALD_CLUA_H
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>

// Lua raises errors with longjmp, which must not cross frames of Swift. So a function of Swift returns its error, and C raises it.

// Returns the number of results on the stack; -1: the value on top is an error.
typedef int (*herald_lua_function)(lua_State *state, void *context);

static int herald_lua_call(lua_State *state) {
  herald_lua_function function = (herald_lua_function)lua_touserdata(state, lua_upvalueindex(1));
  int count = function(state, lua_touserdata(state, lua_upvalueindex(2)));
  return count < 0 ? lua_error(state) : count;
}

static inline void herald_lua_pushfunction(lua_State *state, herald_lua_function function, void *context) {
  lua_pushlightuserdata(state, (void *)function);
  lua_pushlightuserdata(state, context);
  lua_pushcclosure(state, herald_lua_call, 2);
}

// Never fails, so that pushing a value raises no error.
static void *herald_lua_allocate(void *context, void *block, size_t before, size_t size) {
  (void)context;
  (void)before;
  if (size == 0) {
    free(block);
    return NULL;
  }
  void *moved = realloc(block, size);
  if (!moved) abort();
  return moved;
}

// An interpreter with the libraries that need neither files nor processes.
static inline lua_State *herald_lua_open(void) {
  static const luaL_Reg libraries[] = {{"", luaopen_base},
                                       {LUA_TABLIBNAME, luaopen_table},
                                       {LUA_STRLIBNAME, luaopen_string},
                                       {LUA_MATHLIBNAME, luaopen_math},
                                       {LUA_DBLIBNAME, luaopen_debug}};
  lua_State *state = lua_newstate(herald_lua_allocate, NULL);
  for (size_t index = 0; index < sizeof(libraries) / sizeof(libraries[0]); index++) {
    lua_pushcfunction(state, libraries[index].func);
    lua_pushstring(state, libraries[index].name);
    lua_call(state, 1, 0);
  }
  return state;
}

// Replaces a number by its text, as Redis writes the arguments of redis.call.
static inline void herald_lua_totext(lua_State *state, int index) {
  char text[64];
  int count = snprintf(text, sizeof(text), "%.17g", (double)lua_tonumber(state, index));
  lua_pushlstring(state, text, (size_t)count);
  lua_replace(state, index);
}

static void herald_lua_stop(lua_State *state, lua_Debug *at) {
  (void)at;
  luaL_error(state, "the script does not end");
}

// Ends the next call after this many instructions.
static inline void herald_lua_bound(lua_State *state, int instructions) {
  lua_sethook(state, herald_lua_stop, LUA_MASKCOUNT, instructions);
}
#endif
