//! Units, currencies and words of scale.

use std::fmt;

/// A known unit and its power: `cm^2` is `("cm", 2)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) name: &'static str,
    pub(crate) power: u32,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.power {
            1 => f.write_str(self.name),
            power => write!(f, "{}^{power}", self.name),
        }
    }
}

/// Names of one unit; the first is canonical. Nothing is converted: 100 cm is not 1 m.
const UNITS: &[&[&str]] = &[
    &["mm", "millimeter", "millimeters", "millimetre", "millimetres"],
    &["cm", "centimeter", "centimeters", "centimetre", "centimetres"],
    &["m", "meter", "meters", "metre", "metres", "mtr"],
    &["km", "kilometer", "kilometers", "kilometre", "kilometres"],
    &["inch", "inches", "in"],
    &["foot", "feet", "ft"],
    &["yard", "yards", "yd", "yds"],
    &["mile", "miles", "mi"],
    &["mg", "milligram", "milligrams"],
    &["gram", "grams", "g"],
    &["kg", "kilogram", "kilograms", "kilo", "kilos"],
    &["lb", "lbs", "pound", "pounds"],
    &["oz", "ounce", "ounces"],
    &["ton", "tons", "tonne", "tonnes"],
    &["ml", "milliliter", "milliliters", "millilitre", "millilitres"],
    &["liter", "liters", "litre", "litres"],
    &["gallon", "gallons", "gal"],
    &["cup", "cups"],
    &["second", "seconds", "sec", "secs"],
    &["minute", "minutes", "min", "mins"],
    &["hour", "hours", "hr", "hrs"],
    &["day", "days"],
    &["week", "weeks"],
    &["month", "months"],
    &["year", "years", "yr", "yrs"],
    &["mph"],
    &["kmh", "kph", "kmph"],
    &["degree", "degrees", "deg"],
    &["radian", "radians", "rad"],
    &["dollar", "dollars", "usd"],
    &["cent", "cents"],
    &["euro", "euros", "eur"],
    &["sterling", "gbp", "pence"],
    &["rupee", "rupees", "rs", "inr"],
    &["yen", "jpy"],
    &["yuan", "rmb", "cny"],
    &["acre", "acres"],
    &["hectare", "hectares"],
];

/// Units of one letter, which stand upright behind a number. Their case counts, unlike that of words.
pub(crate) const LETTERS: &str = "ACFHJKLMNTVWghlmst";

/// The degree.
pub(crate) const DEGREE: Unit = Unit { name: "degree", power: 1 };

/// Currency signs. `$` is left out where it may delimit mathematics.
pub(crate) fn currency(sign: char) -> Option<Unit> {
    let name = match sign {
        '$' => "dollar",
        '€' => "euro",
        '£' => "sterling",
        '¥' => "yen",
        '₹' => "rupee",
        _ => return None,
    };
    Some(Unit { name, power: 1 })
}

/// Whether `word` names a unit.
pub(crate) fn find(word: &str) -> Option<&'static str> {
    let word = word.to_lowercase();
    UNITS.iter().find(|names| names.contains(&word.as_str())).map(|names| names[0])
}

/// Words of scale, as a power of ten.
pub(crate) fn scale(word: &str) -> Option<u32> {
    match word.to_lowercase().as_str() {
        "hundred" => Some(2),
        "thousand" | "thousands" => Some(3),
        "lakh" | "lakhs" => Some(5),
        "million" | "millions" => Some(6),
        "crore" | "crores" => Some(7),
        "billion" | "billions" => Some(9),
        "trillion" | "trillions" => Some(12),
        _ => None,
    }
}

/// What words after a number say about it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Trailing {
    pub(crate) unit: Option<Unit>,
    pub(crate) scale: u32,
    pub(crate) is_percent: bool,
}

/// Reads the words after a number (`million dollars`, `square cm`, `apples`). Unknown words have no effect; `power` is
/// the power of whatever unit there is.
pub(crate) fn trailing(words: &str, power: u32) -> Trailing {
    let mut found = Trailing::default();
    let mut power = power;
    for (index, word) in
        words.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).enumerate()
    {
        match word.to_lowercase().as_str() {
            "square" | "sq" => power = 2,
            "cubic" | "cu" => power = 3,
            "percent" | "percentage" | "pct" if index == 0 => found.is_percent = true,
            // `5 miles per hour`: a rate is not compared.
            "per" | "a" | "an" | "each" if index > 0 => {
                found.unit = None;
                return found;
            }
            word => {
                if let (Some(scale), None) = (scale(word), found.unit) {
                    found.scale += scale;
                } else if let (Some(name), None) = (find(word), found.unit) {
                    found.unit = Some(Unit { name, power });
                } else {
                    // `5 children in a day`: only words right after the number can be its unit.
                    return found;
                }
            }
        }
    }
    found
}

/// A number without the rate (`48 m/s`) or the letter of a unit (`48m`) behind it. `K`, `M` and `T` stay, since they may
/// be thousands and more.
pub(crate) fn without_rate(text: &str) -> &str {
    let (head, tail) = text.split_at(text.find(char::is_alphabetic).unwrap_or(text.len()));
    let number = head.trim_end();
    let is_sign = |sign: &str| {
        let sign = sign.trim_end_matches(['²', '³']);
        let is_letter = sign.len() == 1 && LETTERS.contains(sign) && !"KMT".contains(sign);
        is_letter || find(sign).is_some()
    };
    let is_unit = match tail.split_once('/') {
        Some((unit, per)) => is_sign(unit) && is_sign(per),
        None => tail.len() <= 3 && is_sign(tail) && find(tail).is_none(),
    };
    if is_unit && number.ends_with(|c: char| c.is_ascii_digit()) { number } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_after_a_number_give_unit_scale_and_percent() {
        let unit = |name, power| Some(Unit { name, power });
        assert_eq!(
            trailing("million dollars", 1),
            Trailing { unit: unit("dollar", 1), scale: 6, is_percent: false }
        );
        assert_eq!(trailing("square centimeters", 1).unit, unit("cm", 2));
        assert_eq!(trailing("inches", 2).unit, unit("inch", 2));
        assert_eq!(trailing("percent", 1), Trailing { unit: None, scale: 0, is_percent: true });
        assert_eq!(trailing("apples in a week", 1), Trailing::default());
        assert_eq!(trailing("miles per hour", 1).unit, None);
    }

    #[test]
    fn every_name_of_a_unit_stands_once() {
        let mut names: Vec<&str> = UNITS.iter().flat_map(|names| names.iter().copied()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
