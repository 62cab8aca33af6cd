package import SanguineModel
import Synchronization

/// The indexes that do not know all records yet.
///
/// Mutable state: `names`, by its mutex, held over nothing. In a process a name leaves it and never
/// comes back.
final class IncompleteIndexes: Sendable {
    private let names = Mutex<Set<IndexName>>([])

    var all: Set<IndexName> {
        get { names.withLock { $0 } }
        set { names.withLock { $0 = newValue } }
    }
}

extension Authority {
    /// Finds the indexes that do not know all records: lists and look-ups by them are refused with
    /// `overloaded` until ``buildIndexes()`` has added what is missing.
    ///
    /// Call it once, before requests are served. If the storage cannot say it, no index is used.
    package func findIncompleteIndexes() async {
        let commands = IndexCommands(schema: settings.schema)
        incompleteIndexes.all = commands.declared
        guard let loaded = try? await storage.load([.indexes]) else { return }
        note(loaded.indexes)
    }

    /// Does a small part of the work that the indexes need.
    ///
    /// - Parameter unreadable: Is called with the records that are no JSON objects: at most a few
    ///   hundred, and each once for each index. They are found as records without members.
    /// - Returns: What is left to be built or removed, in order; none if all is done.
    /// - Throws: what the storage failed with.
    package func buildIndexes(
        unreadable: ([RecordName]) -> Void = { _ in }
    ) async throws(Problem) -> [IndexName] {
        let step = try await perform(IndexCommands(schema: settings.schema).step())
        note(step.row)
        if !step.unreadable.isEmpty { unreadable(step.unreadable) }
        return step.row.builds.filter { $0.stage != .complete }.map(\.name)
    }

    private func note(_ row: IndexesRow) {
        let complete = row.builds.filter {
            $0.stage == .complete && $0.version == IndexBuild.currentVersion
        }
        incompleteIndexes.all.subtract(complete.map(\.name))
    }
}

extension Problem {
    /// The refusal of what would have to be found by an index that does not know all records.
    static func incomplete(_ index: IndexName) -> Problem {
        Problem(
            .overloaded,
            """
            The index '\(index.field)' of '\(index.collection)' is being built, and would miss \
            records: send the request again after 'Retry-After'.
            """,
            retryAfter: 2
        )
    }
}
