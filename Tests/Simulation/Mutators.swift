package import SanguineModel

/// The records and mutations of the simulated app.
///
/// `counters` are never deleted: each operation leaves its own mark in one, so that any view shows
/// at any time whether it contains the operation: not at all, once, or twice. `notes` are created
/// and deleted. `sheets` are never deleted either, and their type changes in the second version of
/// the app, see ``SimulatedVersion``.
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

    /// Returns the place of the marks in a sheet's new member.
    static func depth(of sheet: RecordKey) -> RecordKey {
        RecordKey("sheets more", sheet.id)
    }

    /// Returns the member of a sheet that a device writes.
    static func member(of device: Int) -> String { ["left", "middle", "right"][device] }

    /// Returns the places where operations leave their marks, with the marks there.
    ///
    /// - Parameter fields: Returns the members of a record, or `nil` if there is none.
    /// - Returns: The marks of each place.
    /// - Throws: An error thrown by `fields`.
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

    /// The schema of devices in all versions.
    package static let client = RecordSchema(
        collections: collections,
        mutations: [Mark.self, Move.self, Poison.self, Retag.self]
    )

    /// The schema of the authority, which refuses operations that devices accept.
    package static let server = RecordSchema(
        collections: collections,
        mutations: [
            Mark.self, Move.self, RefusedPoison.self, Retag.self, MarkDeepSheet<NewSheet>.self,
            DeepenSheet<NewSheet>.self,
        ]
    )
}

/// Leaves the operation's mark in a counter and counts.
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

/// Leaves its mark in two counters at once: no view may ever show only one of them.
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

/// A ``Mark`` that the authority refuses.
struct Poison: RecordMutation {
    static let name = "poison"
    let counter: RecordID

    func apply(to records: inout Records) throws {
        try Mark(counter: counter, lane: lane).apply(to: &records)
    }
}

/// The authority's version of ``Poison``.
struct RefusedPoison: RecordMutation {
    static let name = "poison"
    let counter: RecordID

    func apply(to records: inout Records) throws {
        try Mark(counter: counter, lane: lane).apply(to: &records)
        throw Refusal(.invalidContent, "Do not send poison.")
    }
}

/// Changes the tag of all notes with one tag: it depends on the result of an index.
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
