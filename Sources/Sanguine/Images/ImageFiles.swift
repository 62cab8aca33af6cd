/// Decides which image files stay on disk: the least recently used ones are removed first.
///
/// Pure: the shell lists, writes and removes the files.
///
/// Invariants, checked after each event in debug builds: `bytes` is the sum of the sizes, and at
/// most `limit`.
struct ImageFiles: Sendable {
    let limit: Int64
    private(set) var bytes: Int64 = 0
    private var sizes: [String: Int64] = [:]
    private var order = RecencyList<String>()

    init(limit: Int64) { self.limit = limit }

    /// Creates the state of a folder.
    ///
    /// - Parameters:
    ///   - files: Names and sizes, the least recently used first.
    ///   - limit: The maximum size of all files together.
    /// - Returns: The state, and the files to remove.
    static func restored(
        _ files: [(name: String, bytes: Int64)],
        limit: Int64
    ) -> (state: ImageFiles, removed: [String]) {
        var state = ImageFiles(limit: limit)
        let removed = files.flatMap { state.add($0.name, bytes: $0.bytes) }
        return (state, removed)
    }

    var count: Int { sizes.count }

    func contains(_ name: String) -> Bool { sizes[name] != nil }

    /// Adds a file, or replaces the one with the same name.
    ///
    /// - Returns: The files to remove; the new one itself if it exceeds the limit.
    mutating func add(_ name: String, bytes size: Int64) -> [String] {
        defer { assert(bytes <= limit && bytes >= 0, "The disk is over its limit.") }
        remove(name)
        guard size <= limit else { return [name] }
        sizes[name] = size
        bytes += size
        order.use(name)
        var removed: [String] = []
        while bytes > limit, let first = order.first {
            remove(first)
            removed.append(first)
        }
        return removed
    }

    /// Records a use of a file.
    mutating func use(_ name: String) { if sizes[name] != nil { order.use(name) } }

    /// Removes a file.
    mutating func remove(_ name: String) {
        guard let size = sizes.removeValue(forKey: name) else { return }
        bytes -= size
        order.remove(name)
    }
}
