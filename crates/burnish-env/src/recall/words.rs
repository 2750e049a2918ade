//! The words of keys and of generated texts. No word of a key occurs in a generated text.

/// Adjectives of keys.
pub(super) const ADJECTIVES: [&str; 64] = [
    "amber", "agile", "brisk", "calm", "civic", "crisp", "dusty", "eager", "early", "fancy", "fluid",
    "fresh", "frosty", "gentle", "giant", "glossy", "grand", "happy", "hasty", "hollow", "humble", "icy",
    "ideal", "jolly", "keen", "lively", "loyal", "lucky", "lunar", "merry", "mighty", "misty", "modest",
    "noble", "olive", "plain", "plump", "polite", "proud", "pure", "quick", "rapid", "rigid", "royal",
    "rusty", "sandy", "sharp", "shiny", "silent", "smooth", "solid", "sour", "spicy", "steep", "stern",
    "sturdy", "sunny", "swift", "tender", "tidy", "vivid", "witty", "young", "zesty",
];

/// Nouns of keys.
pub(super) const NOUNS: [&str; 96] = [
    "acorn", "anchor", "apron", "arrow", "badge", "banjo", "basil", "beacon", "beetle", "blade", "bonnet",
    "brick", "bubble", "button", "cactus", "candle", "canoe", "carrot", "castle", "cedar", "cherry",
    "clover", "comet", "copper", "coral", "cradle", "daisy", "dagger", "dragon", "drum", "eagle", "ember",
    "falcon", "feather", "ferry", "fiddle", "flute", "fossil", "galaxy", "garlic", "ginger", "glove",
    "grape", "hammer", "harbor", "hazel", "helmet", "heron", "island", "ivory", "jacket", "jasmine",
    "kettle", "kite", "lantern", "lemon", "lily", "magnet", "maple", "marble", "meadow", "mirror", "needle",
    "nickel", "nutmeg", "oasis", "orchid", "otter", "paddle", "parrot", "pebble", "pepper", "pigeon",
    "pillow", "planet", "quartz", "rabbit", "raven", "ribbon", "rocket", "saddle", "salmon", "sparrow",
    "spoon", "tiger", "timber", "trumpet", "tulip", "turtle", "umbrella", "velvet", "violin", "walnut",
    "whistle", "willow", "zebra",
];

/// RULER's noise (`scripts/data/synthetic/niah.py`), sentence by sentence.
pub(super) const NOISE: [&str; 5] =
    ["The grass is green.", "The sky is blue.", "The sun is yellow.", "Here we go.", "There and back again."];

/// Who does something in a generated text.
pub(super) const PEOPLE: [&str; 32] = [
    "farmer", "doctor", "teacher", "baker", "sailor", "lawyer", "singer", "painter", "writer", "miner",
    "nurse", "tailor", "butcher", "cook", "driver", "clerk", "guard", "judge", "priest", "weaver", "hunter",
    "potter", "mason", "banker", "porter", "trader", "dancer", "monk", "mayor", "student", "tenant", "widow",
];

/// What they do with it.
pub(super) const VERBS: [&str; 32] = [
    "sold", "found", "lost", "bought", "carried", "hid", "painted", "broke", "wanted", "saw", "took", "left",
    "cleaned", "moved", "drew", "kept", "gave", "brought", "opened", "closed", "washed", "mended", "missed",
    "chose", "held", "shared", "counted", "praised", "feared", "used", "stole", "dropped",
];

/// With what.
pub(super) const THINGS: [&str; 32] = [
    "table", "chair", "book", "letter", "coat", "door", "lamp", "cup", "box", "knife", "rope", "wheel",
    "bag", "clock", "map", "shirt", "bed", "plate", "bell", "coin", "bottle", "ladder", "pipe", "shoe",
    "basket", "window", "broom", "carpet", "drawer", "ring", "towel", "barrel",
];

/// Where.
pub(super) const PLACES: [&str; 32] = [
    "house", "garden", "market", "church", "river", "bridge", "forest", "field", "school", "station", "mill",
    "tower", "shop", "street", "yard", "kitchen", "cellar", "barn", "square", "valley", "hill", "shore",
    "road", "gate", "wall", "park", "inn", "stable", "well", "farm", "pond", "town",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_word_comes_twice_and_no_word_of_a_key_is_in_a_text() {
        let of_keys = ADJECTIVES.iter().chain(&NOUNS);
        let of_texts = PEOPLE.iter().chain(&VERBS).chain(&THINGS).chain(&PLACES);
        let all: Vec<&str> = of_keys.chain(of_texts).copied().collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        let noise = NOISE.join(" ").to_lowercase();
        assert!(ADJECTIVES.iter().chain(&NOUNS).all(|word| !noise.contains(word)));
    }
}
