#include "list.h"

static int helper(int a) { return a; }

void list_push(int a) { helper(a); }
