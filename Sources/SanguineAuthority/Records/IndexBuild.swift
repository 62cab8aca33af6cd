import Foundation
public import SanguineModel

/// How far an index of a collection is built.
///
/// An index that was just declared knows none of the records that are there. They are added in
/// small steps, so that requests go on meanwhile; until that is done, nothing may be found by the
/// index, because what it does not know would be missing without a word.
public struct IndexBuild: Hashable, Codable, Sendable {
    /// What is done to the index.
    public enum Stage: String, Codable, Sendable {
        /// Entries of an earlier declaration are removed: they were not maintained since.
        case clearing
        /// Records are added.
        case building
        /// All records are in it, and each change of a record maintains it.
        case complete
    }

    /// A place in the order of a collection's records: by scope, then by id.
    public struct Place: Hashable, Codable, Sendable {
        /// An account, for its records; `nil` for those of everyone, which come first.
        public var scope: Identifier?
        /// The record; `nil` for all of the scope.
        public var id: RecordID?

        /// Creates the place.
        public init(_ scope: Identifier?, _ id: RecordID? = nil) {
            self.scope = scope
            self.id = id
        }
    }

    /// The version of ``IndexKey``'s bytes: an index with entries of another one is built again.
    public static let currentVersion = 1
    /// How many records and entries a step of the work looks at, so that requests wait for it no
    /// longer than some milliseconds: 200.
    public static let looksPerStep = 200
    /// After how many bytes of records a step ends: 1 MiB.
    public static let bytesPerStep = 1 << 20
    /// How many steps a server does before it takes requests: 32.
    ///
    /// They are enough for some thousand records: lists of these are never refused.
    public static let stepsAtStart = 32

    /// The collection's name.
    public var collection: String
    /// The member.
    public var field: String
    /// The version of its entries.
    public var version: Int
    /// What is done to it.
    public var stage: Stage
    /// After which place the stage goes on; `nil` for the first.
    public var after: Place?

    /// Creates an index of which nothing is known.
    public init(_ collection: String, by field: String) {
        self.collection = collection
        self.field = field
        version = Self.currentVersion
        stage = .clearing
    }

    /// The name of the index.
    var name: IndexName { IndexName(collection: collection, field: field) }

    /// Goes on with the next stage, from its first place.
    mutating func begin(_ next: Stage) {
        stage = next
        after = nil
    }
}

/// The one row that says how far the indexes are.
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

    /// The collection and the member, with a point between them.
    public var description: String { "\(collection).\(field)" }

    /// Orders by the collection, then by the member.
    public static func < (lhs: IndexName, rhs: IndexName) -> Bool {
        (lhs.collection, lhs.field) < (rhs.collection, rhs.field)
    }
}

/// The command that builds indexes, step by step.
struct IndexCommands: Sendable {
    let schema: RecordSchema
    var looks = IndexBuild.looksPerStep

    /// What a step has done.
    struct Step: Sendable {
        /// How far the indexes are.
        var row: IndexesRow
        /// Records that are no JSON objects, and were added as if they had no members.
        var unreadable: [RecordName] = []
    }

    /// Compares what is stored with the declarations, and does a part of the work.
    ///
    /// It changes nothing if nothing is left to do.
    func step() -> Command<Step> {
        Command(keys: [.indexes]) { loaded, reader throws(Problem) in
            let stored = loaded.indexes
            var row = reconciled(stored)
            var changes: [Change] = []
            var unreadable: [RecordName] = []
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
                    let build = row.builds[next]
                    if build.stage == .building, !isDeclared(build.name) {
                        row.builds.remove(at: next)
                    }
                }
            } catch {
                throw Problem(.internalFault, "Check the server's log: an index was not built.")
            }
            let step = Step(row: row, unreadable: unreadable)
            guard row != stored else { return Decision(step) }
            return Decision(step, changes: changes + [.put(.indexes(row))])
        }
    }

    /// All indexes that are declared.
    var declared: Set<IndexName> {
        var names: Set<IndexName> = []
        for collection in schema.allCollections {
            for field in collection.indexes {
                names.insert(IndexName(collection: collection.name, field: field))
            }
        }
        return names
    }

    private func isDeclared(_ name: IndexName) -> Bool {
        schema.collection(name.collection)?.indexes.contains(name.field) ?? false
    }

    private func reconciled(_ stored: IndexesRow) -> IndexesRow {
        var missing = declared
        var builds: [IndexBuild] = []
        for build in stored.builds {
            let isDeclared = missing.remove(build.name) != nil
            // Another version may have added entries behind the place that a clearing has reached.
            let isKept =
                build.version == IndexBuild.currentVersion
                && (isDeclared || build.stage == .clearing)
            builds.append(isKept ? build : IndexBuild(build.collection, by: build.field))
        }
        builds += missing.map { IndexBuild($0.collection, by: $0.field) }
        return IndexesRow(builds: builds.sorted { $0.name < $1.name })
    }

    /// Does a part of a stage.
    ///
    /// - Returns: How many records and entries it looked at.
    /// - Throws: what the storage failed with.
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
            // There may be more of this list.
            guard looked < looks || entries.isEmpty else { return looked }
            build.after = IndexBuild.Place(scope)
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
            // One that cannot be read must not keep all others from being found.
            if fields == nil { unreadable.append(row.name) }
            changes += collection.entries(
                of: row.name.id,
                owner: row.owner,
                fields ?? [:],
                by: build.field
            )
            .map(Change.index)
        }
        build.after = IndexBuild.Place(last.name.scope, last.name.id)
        return rows.count
    }
}

extension IndexBuild.Place: Comparable {
    /// The place of a record.
    init(_ name: RecordName) { self.init(name.scope, name.id) }

    /// Orders by the scope, everyone's first, then by the id.
    public static func < (lhs: Self, rhs: Self) -> Bool {
        if lhs.scope == rhs.scope { return lhs.order.lexicographicallyPrecedes(rhs.order) }
        guard let left = lhs.scope, let right = rhs.scope else { return lhs.scope == nil }
        return left < right
    }

    private var order: [UInt8] { Array((id?.text ?? "").utf8) }
}
