public import SanguineModel

/// The subject of a photo.
public enum ReadingKind: String, Codable, CaseIterable, Sendable {
    case face, palm, coffee
}

/// The tradition in which a photo is read.
public enum Origin: String, Codable, CaseIterable, Sendable {
    case turkish, greek, chinese, indian, celtic
}

/// A reading in the user's history.
public struct Reading: SyncedRecord {
    public static let collection = RecordCollection("readings", indexes: ["day"])
    public static let byDay = RecordIndex<Reading, CalendarDay>("day")

    /// The key of the call, so that the server and every device write the same record.
    public let id: RecordID
    public let kind: ReadingKind
    public let origin: Origin
    /// The user's day on which the reading began.
    public let day: CalendarDay
    /// The id of the photo; `nil` if the app ended before it could store it.
    public let photo: String?
    /// The text of the reading; `nil` while it is generated.
    public var text: String?

    public init(call: String, _ input: ReadPhoto.Input, day: CalendarDay, photo: String?) throws {
        id = try RecordID(derivedFrom: call)
        (kind, origin) = (input.kind, input.origin)
        (self.day, self.photo) = (day, photo)
    }

    /// The key of the call.
    public var call: String { id.text }
}

/// The types that both client and server register.
public let readingTypes: [any Registrable.Type] = [
    Reading.self, BeginReading.self, AbandonReading.self, DeleteReading.self,
]
