package ext;

import java.util.ArrayList;
import java.util.List;

class Ext {
    private List<String> names = new ArrayList<>();

    void add(String name) {
        names.add(name.trim());
        List<Integer> numbers = load();
        numbers.clear();
    }

    List<Integer> load() { return null; }
}
