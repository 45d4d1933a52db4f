def by_name(user):
    return user.name()


class User:
    def name(self):
        return "a"


users = [User(), User()]
sorted(users, key=by_name)
max(users, key=lambda user: user.name())
users.sort(key=by_name)
