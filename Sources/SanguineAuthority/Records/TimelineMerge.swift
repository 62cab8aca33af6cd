import HeapModule
public import SanguineModel

/// Merges the records of followed authors into one list, newest first.
///
/// A driver adds the newest position of each author, and then, for each position that it takes, the
/// author's next one. So a page costs one look-up for each author and for each record.
///
/// A position in the merged list consists of the time of creation and the id, without the author.
/// A page that continues after one therefore stays correct if records are written, deleted or
/// followed in the meantime.
///
/// Invariants:
/// 1. The heap has at most one position of each author.
/// 2. The positions that are taken descend.
public struct TimelineMerge: Sendable {
    /// A position, and the author of its record.
    public struct Head: Hashable, Comparable, Sendable {
        /// The position in the merged list.
        public let position: RecordPosition
        /// The number of the author.
        public let author: Int

        /// Orders by position.
        public static func < (lhs: Head, rhs: Head) -> Bool { lhs.position < rhs.position }
    }

    /// The beginnings of the authors' keys.
    private let prefixes: [[UInt8]]
    private let after: RecordPosition?
    private var heads = Heap<Head>()

    /// Begins a page.
    ///
    /// - Parameters:
    ///   - after: The position after which the page continues; `nil` for the newest records.
    ///   - keys: The keys of the list that names the authors; repeated ones, and those that name
    ///     none, are ignored.
    ///   - own: An author in addition to those. Default: `nil`.
    public init(after: RecordPosition?, _ keys: [IndexKey], own: RecordID? = nil) {
        self.after = after
        let authors = keys.compactMap { key -> RecordID? in
            guard key.bytes.first == Self.text else { return nil }
            return RecordID(String(decoding: key.bytes.dropFirst(), as: UTF8.self))
        }
        prefixes = Set(authors + [own].compactMap(\.self)).sorted().map(Self.prefix)
    }

    /// The numbers of the authors.
    public var authors: Range<Int> { prefixes.indices }

    /// Returns the position in the stored list from which the author's records follow, in
    /// descending order.
    ///
    /// - Parameters:
    ///   - author: The number of the author.
    ///   - position: The last position taken; `nil` for the beginning of the page.
    /// - Returns: The key and the id after which they follow; `nil` for the end of all ids.
    public func start(
        of author: Int,
        after position: RecordPosition? = nil
    ) -> (key: IndexKey, id: RecordID?) {
        guard let position = position ?? after, let key = position.key else {
            return (IndexKey(bytes: prefixes[author] + [255]), nil)
        }
        return (IndexKey(bytes: prefixes[author] + key.bytes.dropFirst()), position.id)
    }

    /// Adds an entry of the stored list, unless it is another author's.
    public mutating func add(_ key: IndexKey, _ id: RecordID, of author: Int) {
        let prefix = prefixes[author]
        guard key.bytes.starts(with: prefix) else { return }
        let moment = IndexKey(bytes: [Self.text] + key.bytes.dropFirst(prefix.count))
        heads.insert(Head(position: RecordPosition(moment, id), author: author))
    }

    /// Removes and returns the newest position; `nil` at the end of the list.
    public mutating func next() -> Head? { heads.popMax() }

    /// Returns the key of a record in the stored list, by its author and the time of its creation.
    public static func key(of author: RecordID, at moment: String) -> IndexKey {
        IndexKey(bytes: prefix(of: author) + moment.utf8.prefix(momentBytes))
    }

    // An id does not contain the byte 0, so no author's keys begin with those of another.
    private static func prefix(of author: RecordID) -> [UInt8] { [7] + author.text.utf8 + [0] }

    /// The kind of a key of text.
    private static let text: UInt8 = 5
    /// The bytes of a moment in a key; the server's have 24.
    private static let momentBytes = 64
}
