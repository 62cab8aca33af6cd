import Sanguine
import SanguineModel

/// What `sanguine note` keeps: a text in the collection `notes`, which every server has.
struct Note: SyncedRecord {
    static let collection = RecordCollection("notes")

    let id: RecordID
    var text: String
    var createdAt: Timestamp?

    /// The line in which the operations of a note wait: one for each note.
    static func lane(of id: RecordID) -> String { "note:\(id)" }

    /// The name of a note's record.
    static func key(_ id: RecordID) -> RecordKey { RecordKey(collection.name, id) }
}

/// The moments of notes that are made one after the other: of one millisecond, too, they are listed
/// in their order.
struct RisingMoments {
    private var last: Timestamp?

    /// The time of day, or a millisecond after the last one.
    mutating func next(at now: Timestamp) -> Timestamp {
        let moment = last.map { max(now, $0 + .milliseconds(1)) } ?? now
        last = moment
        return moment
    }
}

/// A change of one record that needs no code of the app.
protocol ChangeOfRecord: RecordMutation {
    var id: RecordID { get }
}

extension CreateRecord: ChangeOfRecord {}
extension SetFields: ChangeOfRecord {}
extension DeleteRecord: ChangeOfRecord {}

/// A change of a note: travels as what it is made of, in the lane of its note.
///
/// So no note waits for another, and the outbox tells which notes wait.
struct NoteMutation<Base: ChangeOfRecord>: RecordMutation {
    static var name: String { Base.name }

    let base: Base

    init(_ base: Base) { self.base = base }

    init(from decoder: any Decoder) throws { base = try Base(from: decoder) }

    var lane: String { Note.lane(of: base.id) }

    func encode(to encoder: any Encoder) throws { try base.encode(to: encoder) }

    func apply(to records: inout Records) throws { try base.apply(to: &records) }
}
