void list_push(int a);
