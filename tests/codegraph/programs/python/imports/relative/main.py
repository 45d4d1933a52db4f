from shop.front import serve

serve()
