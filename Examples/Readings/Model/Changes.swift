public import SanguineModel

/// Adds a reading whose text is not known yet.
public struct BeginReading: RecordMutation {
    public static let name = "reading.begin"
    let reading: Reading
    public var lane: String { reading.id.text }

    public init(_ reading: Reading) { self.reading = reading }

    public func apply(to records: inout Records) throws {
        guard records.get(Reading.self, reading.id) == nil else { return }
        records.set(reading)
    }
}

/// Adds the text to a reading.
///
/// Several devices may do this for the same call. The first text stays.
public struct FinishReading: RecordMutation {
    public static let name = "reading.finish"
    let reading: RecordID
    let text: String
    public var lane: String { reading.text }

    public init(_ reading: RecordID, text: String) { (self.reading, self.text) = (reading, text) }

    public func apply(to records: inout Records) throws {
        guard text.utf8.count <= 32 << 10 else {
            throw Refusal(.invalidContent, "Keep a text of at most 32 KiB.")
        }
        guard var known = records.get(Reading.self, reading), known.text == nil else { return }
        known.text = text
        records.set(known)
    }
}

/// Deletes a reading: one that failed, or one that the user removes.
public struct DeleteReading: RecordMutation {
    public static let name = "reading.delete"
    let reading: RecordID
    public var lane: String { reading.text }

    public init(_ reading: RecordID) { self.reading = reading }

    public func apply(to records: inout Records) throws {
        records.delete(Reading.self, reading)
    }
}
