import Sanguine
import SanguineModel

/// The record of `sanguine note`: a text in the collection `notes`, which every server has.
struct Note: SyncedRecord {
    static let collection = RecordCollection("notes")

    let id: RecordID
    var text: String
    var createdAt: Timestamp?

    /// Returns the lane of a note's operations; each note has its own.
    static func lane(of id: RecordID) -> String { "note:\(id)" }

    /// Returns the key of a note's record.
    static func key(_ id: RecordID) -> RecordKey { RecordKey(collection.name, id) }
}

/// Generates distinct moments for notes that are created in succession, so that they are listed in
/// order even if created within a millisecond.
struct RisingMoments {
    private var last: Timestamp?

    /// Returns the time of day, or a millisecond after the previous moment if that is later.
    mutating func next(at now: Timestamp) -> Timestamp {
        let moment = last.map { max(now, $0 + .milliseconds(1)) } ?? now
        last = moment
        return moment
    }
}

/// A change of one record with a predefined mutation.
protocol ChangeOfRecord: RecordMutation {
    var id: RecordID { get }
}

extension CreateRecord: ChangeOfRecord {}
extension SetFields: ChangeOfRecord {}
extension DeleteRecord: ChangeOfRecord {}

/// A change of a note.
///
/// It is encoded like its base mutation, and sent in the note's lane.
///
/// So no note waits for another, and the outbox shows which notes are waiting.
struct NoteMutation<Base: ChangeOfRecord>: RecordMutation {
    static var name: String { Base.name }

    let base: Base

    init(_ base: Base) { self.base = base }

    init(from decoder: any Decoder) throws { base = try Base(from: decoder) }

    var lane: String { Note.lane(of: base.id) }

    func encode(to encoder: any Encoder) throws { try base.encode(to: encoder) }

    func apply(to records: inout Records) throws { try base.apply(to: &records) }
}
