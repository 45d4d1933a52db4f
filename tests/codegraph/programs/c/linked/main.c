#include "list.h"

static int helper(int a) { return a; }

int main(void) {
    list_push(helper(1));
    printf("x");
    return 0;
}
