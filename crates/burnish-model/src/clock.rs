//! `strftime` of a fixed time, for templates that write the date.

use minijinja::{Error, ErrorKind};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A time of the calendar, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Date {
    year: i64,
    /// From 1.
    month: usize,
    /// From 1.
    day: i64,
    /// Days since Sunday.
    weekday: usize,
    seconds: i64,
}

impl Date {
    /// The date of a count of seconds since 1970, by Hinnant's `civil_from_days`
    /// (howardhinnant.github.io/date_algorithms.html).
    fn at(unix_seconds: i64) -> Self {
        let days = unix_seconds.div_euclid(86_400);
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        // Counted from March, so that the leap day is the last of the year.
        let month = (5 * day_of_year + 2) / 153;
        let is_new_year = month >= 10;
        Date {
            year: year_of_era + era * 400 + i64::from(is_new_year),
            month: (if is_new_year { month - 9 } else { month + 3 }) as usize,
            day: day_of_year - (153 * month + 2) / 5 + 1,
            weekday: (days + 4).rem_euclid(7) as usize,
            seconds: unix_seconds.rem_euclid(86_400),
        }
    }
}

/// Formats a count of seconds since 1970, in UTC, by the codes of C's `strftime` that templates use.
///
/// # Errors
/// Names a code that is not supported.
pub(crate) fn strftime(format: &str, unix_seconds: i64) -> Result<String, Error> {
    let date = Date::at(unix_seconds);
    let (month, day) = (MONTHS[date.month - 1], DAYS[date.weekday]);
    let mut out = String::new();
    let mut codes = format.chars();
    while let Some(next) = codes.next() {
        if next != '%' {
            out.push(next);
            continue;
        }
        match codes.next() {
            Some('Y') => out += &date.year.to_string(),
            Some('y') => out += &format!("{:02}", date.year.rem_euclid(100)),
            Some('m') => out += &format!("{:02}", date.month),
            Some('d') => out += &format!("{:02}", date.day),
            Some('B') => out += month,
            Some('b') => out += &month[..3],
            Some('A') => out += day,
            Some('a') => out += &day[..3],
            Some('H') => out += &format!("{:02}", date.seconds / 3600),
            Some('M') => out += &format!("{:02}", date.seconds / 60 % 60),
            Some('S') => out += &format!("{:02}", date.seconds % 60),
            Some('%') => out.push('%'),
            other => {
                let code = other.map(String::from).unwrap_or_default();
                let problem = format!("strftime_now: code %{code} is not supported");
                return Err(Error::new(ErrorKind::InvalidOperation, problem));
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The expected texts are what `date -u -d @SECONDS` gives.
    #[test]
    fn dates_are_those_of_the_calendar() {
        let all = "%A %a %d %B %b %Y-%m-%d %y %H:%M:%S %%";
        let expect = [
            (0, "Thursday Thu 01 January Jan 1970-01-01 70 00:00:00 %"),
            (951_827_696, "Tuesday Tue 29 February Feb 2000-02-29 00 12:34:56 %"),
            (1_709_251_199, "Thursday Thu 29 February Feb 2024-02-29 24 23:59:59 %"),
            (4_107_542_400, "Monday Mon 01 March Mar 2100-03-01 00 00:00:00 %"),
            (-1, "Wednesday Wed 31 December Dec 1969-12-31 69 23:59:59 %"),
        ];
        for (seconds, text) in expect {
            assert_eq!(strftime(all, seconds).unwrap(), text);
        }
        assert!(strftime("%Q", 0).unwrap_err().to_string().contains("%Q"));
    }
}
