package import SanguineModel

/// The records and mutators of the simulated app.
///
/// `counters` are never deleted: each operation leaves a mark of its own in one, so that it can be
/// seen, in any view and at any time, whether an operation is in it: not, once, or twice. `notes`
/// come and go. `sheets` are never deleted either, and their type is another one in the second
/// version of the app, see ``SimulatedVersion``.
package enum SimulatedApp {
    package static let counters = ["a", "b", "c"].map { RecordKey("counters", RecordID($0)!) }
    package static let notes = (0..<5).map { RecordKey("notes", RecordID("n\($0)")!) }

    static let sheets = (0..<2).map { RecordKey("sheets", RecordID("s\($0)")!) }
    static let sheetCollection = RecordCollection("sheets")

    static let collections = [
        RecordCollection("counters"), RecordCollection("notes", indexes: ["tag"]), sheetCollection,
    ]

    /// The mutations that an authority does not know before its deployment.
    static let undeployed: Set<String> = [DeepenSheet<NewSheet>.name]

    /// The place of the marks in a sheet's new member.
    static func depth(of sheet: RecordKey) -> RecordKey {
        RecordKey("sheets more", sheet.id)
    }

    /// The member of a sheet that a device writes.
    static func member(of device: Int) -> String { ["left", "middle", "right"][device] }

    /// Where operations leave their marks, with what is there.
    ///
    /// - Parameter fields: The members of a record; `nil` if there is none.
    /// - Returns: The marks of each place.
    /// - Throws: What `fields` threw.
    static func marks(
        _ fields: (RecordKey) throws -> RecordFields?
    ) rethrows -> [RecordKey: RecordFields] {
        var marks: [RecordKey: RecordFields] = [:]
        for key in counters { marks[key] = try fields(key) ?? [:] }
        for key in sheets {
            let sheet = try fields(key) ?? [:]
            if case .object(let members)? = sheet["marks"] { marks[key] = members }
            if case .object(let members)? = sheet["more"] { marks[depth(of: key)] = members }
        }
        return marks
    }

    /// What devices of all versions know.
    package static let client = RecordSchema(
        collections: collections,
        mutations: [Mark.self, Move.self, Poison.self, Retag.self]
    )

    /// What the authority knows: it refuses what devices believe in.
    package static let server = RecordSchema(
        collections: collections,
        mutations: [
            Mark.self, Move.self, RefusedPoison.self, Retag.self, MarkDeepSheet<NewSheet>.self,
            DeepenSheet<NewSheet>.self,
        ]
    )
}

/// Leaves the operation's mark in a counter, and counts.
struct Mark: RecordMutation {
    static let name = "mark"
    let counter: RecordID
    var lane: String

    func apply(to records: inout Records) throws {
        let key = RecordKey("counters", counter)
        var fields = try records.value(key)?.fields() ?? [:]
        let mark = "op-\(records.operation.id)"
        fields[mark] = .integer((fields[mark]?.integer ?? 0) + 1)
        fields["count"] = .integer((fields["count"]?.integer ?? 0) + 1)
        records.put(RecordValue(fields), for: key)
    }
}

/// Leaves its mark in two counters at once: nobody may ever see one without the other.
struct Move: RecordMutation {
    static let name = "move"
    let from: RecordID
    let to: RecordID

    func apply(to records: inout Records) throws {
        for counter in [from, to] {
            try Mark(counter: counter, lane: lane).apply(to: &records)
        }
    }
}

/// As ``Mark``, and refused by the authority.
struct Poison: RecordMutation {
    static let name = "poison"
    let counter: RecordID

    func apply(to records: inout Records) throws {
        try Mark(counter: counter, lane: lane).apply(to: &records)
    }
}

/// ``Poison`` as the authority knows it.
struct RefusedPoison: RecordMutation {
    static let name = "poison"
    let counter: RecordID

    func apply(to records: inout Records) throws {
        try Mark(counter: counter, lane: lane).apply(to: &records)
        throw Refusal(.invalidContent, "Do not send poison.")
    }
}

/// Gives all notes of one tag another: it depends on what an index finds.
struct Retag: RecordMutation {
    static let name = "retag"
    let from: String
    let to: String

    func apply(to records: inout Records) throws {
        for key in records.keys(in: "notes", where: "tag", is: .string(from)) {
            var fields = try records.value(key)?.fields() ?? [:]
            fields["tag"] = .string(to)
            records.put(RecordValue(fields), for: key)
        }
    }
}
