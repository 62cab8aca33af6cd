import SanguineModel

/// The switches in the storage.
struct SwitchesDocument: StoredDocument {
    static let kind = DocumentKind.switches
    /// There is one document of this kind.
    static let name = "current"

    var revision: Int64
    /// The members of ``SanguineModel/Switches``.
    var switches: JSONValue
    var changedAt: Timestamp

    var documentID: String { Self.name }
    var documentAccount: Identifier? { nil }

    /// The switches, without what this version cannot read.
    var numbered: NumberedSwitches {
        NumberedSwitches(revision: revision, Switches.reading(switches).switches)
    }
}
