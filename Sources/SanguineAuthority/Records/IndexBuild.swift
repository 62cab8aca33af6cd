import Foundation
public import SanguineModel

/// The progress of building an index.
///
/// A newly declared index contains none of the existing records. They are added in small steps, so
/// that requests are served in between. Until then the index is not used, because queries by it
/// would silently miss records.
public struct IndexBuild: Hashable, Codable, Sendable {
    /// The current work on the index.
    public enum Stage: String, Codable, Sendable {
        /// Entries of an earlier declaration are removed, because they were not maintained since.
        case clearing
        /// Records are added.
        case building
        /// The index contains all records, and each change of a record updates it.
        case complete
    }

    /// A position in the order of a collection's records: by scope, then by id.
    public struct Position: Hashable, Codable, Sendable {
        /// The account of the record; `nil` for public records, which come first.
        public var scope: Identifier?
        /// The record; `nil` for the scope as a whole.
        public var id: RecordID?

        /// Creates the position.
        public init(_ scope: Identifier?, _ id: RecordID? = nil) {
            self.scope = scope
            self.id = id
        }
    }

    /// The former name of ``Position``.
    @available(*, deprecated, renamed: "Position")
    public typealias Place = Position

    /// The version of ``IndexKey``'s encoding; an index with entries of another one is rebuilt.
    public static let currentVersion = 1
    /// The number of records and entries that a step examines, so that it delays requests by a few
    /// milliseconds at most: 200.
    public static let looksPerStep = 200
    /// The size of records in bytes after which a step ends: 1 MiB.
    public static let bytesPerStep = 1 << 20
    /// The number of steps that a server performs before it accepts requests: 32.
    ///
    /// They suffice for several thousand records, so lists of that size are never refused.
    public static let stepsAtStart = 32

    /// The collection's name.
    public var collection: String
    /// The indexed member.
    public var field: String
    /// The version of the entries.
    public var version: Int
    /// The accounts for which records have entries, as the collection declares them; `nil` for an
    /// index of a server that did not store it.
    public var audience: String?
    /// The current stage.
    public var stage: Stage
    /// The position after which the stage continues; `nil` for the beginning.
    public var after: Position?

    /// Creates an index without entries.
    public init(_ collection: String, by field: String, for audience: String? = nil) {
        self.collection = collection
        self.field = field
        self.audience = audience
        version = Self.currentVersion
        stage = .clearing
    }

    /// The name of the index.
    var name: IndexName { IndexName(collection: collection, field: field) }

    /// Starts the next stage at its beginning.
    mutating func begin(_ next: Stage) {
        stage = next
        after = nil
    }
}

/// The row that stores the progress of all indexes.
public struct IndexesRow: Hashable, Sendable {
    /// The indexes, by collection and member.
    public var builds: [IndexBuild]

    /// Creates the row.
    public init(builds: [IndexBuild] = []) { self.builds = builds }
}

/// The name of an index.
public struct IndexName: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The collection.
    public var collection: String
    /// The member.
    public var field: String

    /// The collection and the member, separated by a period.
    public var description: String { "\(collection).\(field)" }

    /// Orders by collection, then by member.
    public static func < (lhs: IndexName, rhs: IndexName) -> Bool {
        (lhs.collection, lhs.field) < (rhs.collection, rhs.field)
    }
}

/// The command that builds indexes step by step.
struct IndexCommands: Sendable {
    let schema: RecordSchema
    var looks = IndexBuild.looksPerStep

    /// The result of a step.
    struct Step: Sendable {
        /// The progress of the indexes.
        var row: IndexesRow
        /// Records that are not JSON objects, which were added as records without members.
        var unreadable: [RecordName] = []
        /// The number of records and entries that it examined.
        var looked = 0
    }

    /// Compares the stored indexes with the declarations, and performs a part of the work.
    ///
    /// It changes nothing if no work is left.
    func step() -> Command<Step> {
        Command(keys: [.indexes]) { loaded, reader throws(Problem) in
            let stored = loaded.indexes
            var row = reconciled(stored)
            var changes: [Change] = []
            var unreadable: [RecordName] = []
            var looked = 0
            do {
                var left = looks
                while left > 0, let next = row.builds.firstIndex(where: { $0.stage != .complete }) {
                    let done = try advance(
                        &row.builds[next],
                        left,
                        reader,
                        &changes,
                        &unreadable
                    )
                    left -= max(1, done)
                    looked += done
                    let build = row.builds[next]
                    if build.stage == .building, !isDeclared(build.name) {
                        row.builds.remove(at: next)
                    }
                }
            } catch {
                throw Problem(.internalFault, "Check the server's log: an index was not built.")
            }
            let step = Step(row: row, unreadable: unreadable, looked: looked)
            guard row != stored else { return Decision(step) }
            return Decision(step, changes: changes + [.put(.indexes(row))])
        }
    }

    /// Finds collections with records whose names do not fit the declared access, by two look-ups
    /// for each collection.
    func misplaced() -> Command<[Authority.Misplaced]> {
        Command(keys: []) { _, reader throws(Problem) in
            var found: [Authority.Misplaced] = []
            do {
                for collection in schema.declaredCollections {
                    // Public records come first, so the second look-up skips them.
                    let isOwners = collection.access == .owner
                    let lowest = IndexBuild.Position(Self.lowestScope)
                    let first = try reader.first(in: collection.name, after: nil)
                    let hasPublic = first.map { $0.name.scope == nil } ?? false
                    let hasOwned = try reader.first(in: collection.name, after: lowest) != nil
                    guard isOwners ? hasPublic : hasOwned else { continue }
                    let misplaced = Authority.Misplaced(
                        collection: collection.name,
                        access: collection.access,
                        hasOthers: isOwners ? hasOwned : hasPublic
                    )
                    found.append(misplaced)
                }
            } catch {
                throw Problem(.internalFault, "Check the server's log: records were not examined.")
            }
            return Decision(found)
        }
    }

    /// An id that comes before those of all accounts.
    private static let lowestScope = Identifier("00000000-0000-0000-0000-000000000000")

    /// All declared indexes.
    var declared: Set<IndexName> {
        var names: Set<IndexName> = []
        for collection in schema.allCollections {
            for index in collection.storedIndexes {
                names.insert(IndexName(collection: collection.name, field: index.name))
            }
        }
        return names
    }

    private func isDeclared(_ name: IndexName) -> Bool {
        schema.collection(name.collection)?.storedIndexes.contains { $0.name == name.field }
            ?? false
    }

    private func reconciled(_ stored: IndexesRow) -> IndexesRow {
        var missing = declared
        var builds: [IndexBuild] = []
        for build in stored.builds {
            let isDeclared = missing.remove(build.name) != nil
            // Another version may have added entries before the position that clearing has reached.
            let isKept = schema.fits(build) && (isDeclared || build.stage == .clearing)
            var next = isKept ? build : IndexBuild(build.collection, by: build.field)
            if isDeclared { next.audience = schema.collection(build.collection)?.audience }
            builds.append(next)
        }
        builds += missing.map { name in
            let audience = schema.collection(name.collection)?.audience
            return IndexBuild(name.collection, by: name.field, for: audience)
        }
        return IndexesRow(builds: builds.sorted { $0.name < $1.name })
    }

    /// Performs a part of a stage.
    ///
    /// - Returns: The number of records and entries that it examined.
    /// - Throws: the error of the storage.
    private func advance(
        _ build: inout IndexBuild,
        _ looks: Int,
        _ reader: any RecordReader,
        _ changes: inout [Change],
        _ unreadable: inout [RecordName]
    ) throws -> Int {
        build.stage == .clearing
            ? try clear(&build, looks, reader, &changes)
            : try add(&build, looks, reader, &changes, &unreadable)
    }

    private func clear(
        _ build: inout IndexBuild,
        _ looks: Int,
        _ reader: any RecordReader,
        _ changes: inout [Change]
    ) throws -> Int {
        let scopes = try reader.scopes(in: build.collection, after: build.after, limit: looks)
        var looked = 0
        for scope in scopes {
            let list = IndexList(build.collection, in: scope, by: build.field)
            let entries = try reader.entries(in: list, limit: looks - looked)
            changes += entries.map(Change.unindex)
            looked += max(1, entries.count)
            // The list may have more entries.
            guard looked < looks || entries.isEmpty else { return looked }
            build.after = IndexBuild.Position(scope)
            guard looked < looks else { return looked }
        }
        if scopes.count < looks { build.begin(.building) }
        return looked
    }

    private func add(
        _ build: inout IndexBuild,
        _ looks: Int,
        _ reader: any RecordReader,
        _ changes: inout [Change],
        _ unreadable: inout [RecordName]
    ) throws -> Int {
        let rows = try reader.records(
            in: build.collection,
            after: build.after,
            limit: looks,
            bytes: IndexBuild.bytesPerStep
        )
        guard let last = rows.last, let collection = schema.collection(build.collection) else {
            build.begin(.complete)
            return 0
        }
        for row in rows {
            let fields = try? RecordValue(json: Data(row.value)).fields()
            // A record that cannot be read must not keep the index from completing.
            if fields == nil { unreadable.append(row.name) }
            changes += collection.entries(
                of: row.name.id,
                owner: row.owner,
                fields ?? [:],
                by: build.field
            )
            .map(Change.index)
        }
        build.after = IndexBuild.Position(last.name.scope, last.name.id)
        return rows.count
    }
}

extension RecordSchema {
    /// Whether the entries of an index are those that the declarations require.
    func fits(_ build: IndexBuild) -> Bool {
        guard build.version == IndexBuild.currentVersion else { return false }
        guard let stored = build.audience, let declared = collection(build.collection)?.audience
        else { return true }
        return stored == declared
    }
}

extension IndexBuild.Position: Comparable {
    /// The position of a record.
    init(_ name: RecordName) { self.init(name.scope, name.id) }

    /// Orders by scope, public records first, then by id.
    public static func < (lhs: Self, rhs: Self) -> Bool {
        if lhs.scope == rhs.scope { return lhs.order.lexicographicallyPrecedes(rhs.order) }
        guard let left = lhs.scope, let right = rhs.scope else { return lhs.scope == nil }
        return left < right
    }

    private var order: [UInt8] { Array((id?.text ?? "").utf8) }
}

extension RecordReader {
    /// Returns the first live record of a collection after a position; `nil` if there is none.
    fileprivate func first(
        in collection: String,
        after position: IndexBuild.Position?
    ) throws -> RecordRow? {
        try records(in: collection, after: position, limit: 1, bytes: 1).first
    }
}
