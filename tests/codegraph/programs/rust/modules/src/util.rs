pub fn helper() {}
pub fn other() {}
