import GRDB
import SanguineModel

extension LocalDay {
    /// Reads the day from an entry's row; `nil` if the row has none.
    init?(_ row: Row) {
        guard let day = String.fromDatabaseValue(row["day"]).flatMap(CalendarDay.init),
            let end = Int64.fromDatabaseValue(row["day_end"])
        else { return nil }
        self.init(day: day, end: Timestamp(millisecondsSince1970: end))
    }
}
