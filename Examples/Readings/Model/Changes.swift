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

/// Adds a reading with its text: the server does so in the transaction that charges the call.
public struct KeepReading: RecordMutation {
    public static let name = "reading.keep"
    let reading: Reading

    public init(_ reading: Reading) { self.reading = reading }

    public func apply(to records: inout Records) throws {
        guard reading.text?.utf8.count ?? 0 <= 32 << 10 else {
            throw Refusal(.invalidContent, "Keep a text of at most 32 KiB.")
        }
        // The draft has the day on which the user began it.
        var whole = records.get(Reading.self, reading.id) ?? reading
        whole.text = reading.text
        records.set(whole)
    }
}

/// Deletes a reading whose call has failed; one with a text stays.
public struct AbandonReading: RecordMutation {
    public static let name = "reading.abandon"
    let reading: RecordID
    public var lane: String { reading.text }

    public init(_ reading: RecordID) { self.reading = reading }

    public func apply(to records: inout Records) throws {
        guard let known = records.get(Reading.self, reading), known.text == nil else { return }
        records.delete(Reading.self, reading)
    }
}

/// Deletes a reading that the user removes.
public struct DeleteReading: RecordMutation {
    public static let name = "reading.delete"
    let reading: RecordID
    public var lane: String { reading.text }

    public init(_ reading: RecordID) { self.reading = reading }

    public func apply(to records: inout Records) throws {
        records.delete(Reading.self, reading)
    }
}
