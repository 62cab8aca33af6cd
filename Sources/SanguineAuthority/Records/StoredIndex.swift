import Crypto
import Foundation
import SanguineModel

/// A list of a collection's records in the order of keys, as the storage has it.
indirect enum StoredIndex: Hashable, Sendable {
    /// The values of a member.
    case member(String)
    /// The text of a member, regardless of case and accents.
    case search(String)
    /// The values of several members together, each once.
    case unique([String])
    /// The files that a member names.
    case blobs(String)
    /// The authors that a member names, and the records of each by the time of their creation.
    case timeline(by: String)
    /// Another list, of the records that an account may read.
    case readable(StoredIndex)

    /// The name of the list; no indexed member contains a tilde.
    var name: String {
        switch self {
        case .member(let field): field
        case .search(let field): "\(field)~search"
        case .unique(let fields): "\(fields.joined(separator: "+"))~unique"
        case .blobs(let field): "\(field)~blobs"
        case .timeline(let field): "\(field)~timeline"
        case .readable(let list): "\(list.name)~readers"
        }
    }

    /// Whether the entries of the list are unique.
    static func isUnique(_ list: IndexList) -> Bool { list.field.hasSuffix("~unique") }

    /// Whether the index finds the records that name a file.
    static func isOfBlobs(_ index: IndexName) -> Bool { index.field.hasSuffix("~blobs") }

    /// Returns the keys of a record: one for each file that it names, and at most one in other
    /// lists; none if the list does not contain the record.
    func keys(of fields: RecordFields) -> [IndexKey] {
        switch self {
        case .member(let field): return [IndexKey(ofStored: fields[field])]
        case .search(let field):
            guard case .string(let text)? = fields[field] else { return [] }
            return [IndexKey(ofStored: .string(text.folded))]
        case .unique(let names):
            let values = names.compactMap { fields[$0] }
            guard values.count == names.count, !values.contains(.null) else { return [] }
            return [Self.key(of: values)]
        case .blobs(let field):
            return BlobField.ids(in: fields[field]).ids.compactMap { BlobID($0) }
                .map { IndexKey(of: $0) }
        case .timeline(let field):
            guard let author = fields[field]?.string.flatMap({ RecordID($0) }),
                case .string(let moment)? = fields["createdAt"]
            else { return [] }
            return [TimelineMerge.key(of: author, at: moment)]
        case .readable(let list): return list.keys(of: fields)
        }
    }

    /// Returns a hash of the values, which may be longer than a key.
    ///
    /// Equal numbers have equal hashes.
    private static func key(of values: [JSONValue]) -> IndexKey {
        var hash = SHA256()
        for value in values {
            let bytes = IndexKey(value)?.bytes ?? ResponseEncoder.encode(value)
            hash.update(data: withUnsafeBytes(of: UInt64(bytes.count).littleEndian) { Data($0) })
            hash.update(data: bytes)
        }
        return IndexKey(bytes: [6] + hash.finalize())
    }
}

extension RecordCollection {
    /// All lists of the collection's records.
    var storedIndexes: [StoredIndex] {
        var lists = indexes.map(StoredIndex.member)
        lists += search.map(StoredIndex.search)
        lists += unique.map(StoredIndex.unique)
        lists += blobs.map { .blobs($0.name) }
        lists += Set(timelines.map(\.by)).sorted().map { .timeline(by: $0) }
        return lists + readableIndexes
    }

    /// The lists of each account that may read records of others.
    private var readableIndexes: [StoredIndex] {
        guard access == .readers else { return [] }
        let lists: [StoredIndex] = indexes.map { .member($0) } + blobs.map { .blobs($0.name) }
        return lists.map(StoredIndex.readable)
    }

    /// Returns the entries of a record in all indexes.
    ///
    /// A record that everyone may read has entries in two lists: the public one, and that of its
    /// owner, which record mutations use. One with declared readers has entries in a list of each
    /// of them. The entries of unique groups and timelines are in one list.
    func entries(
        of id: RecordID,
        owner: Identifier,
        _ fields: RecordFields
    ) -> Set<IndexEntry> {
        Set(storedIndexes.flatMap { entries(of: id, owner: owner, fields, in: $0) })
    }

    /// Returns the entries of a record in one index.
    func entries(
        of id: RecordID,
        owner: Identifier,
        _ fields: RecordFields,
        by list: String
    ) -> [IndexEntry] {
        let index = storedIndexes.first { $0.name == list }
        return index.map { entries(of: id, owner: owner, fields, in: $0) } ?? []
    }

    private func entries(
        of id: RecordID,
        owner: Identifier,
        _ fields: RecordFields,
        in index: StoredIndex
    ) -> [IndexEntry] {
        let keys = index.keys(of: fields)
        let scopes: [Identifier?] =
            switch index {
            // Others must not learn of a record that they may not read.
            case .unique: [listScope(of: owner)]
            case .timeline: [nil]
            case .readable: readingAccounts(of: fields).union([owner]).map { Optional($0) }
            case .member, .search, .blobs: access == .everyone ? [owner, nil] : [owner]
            }
        return scopes.flatMap { scope in
            keys.map { IndexEntry(IndexList(name, in: scope, by: index.name), $0, id) }
        }
    }

    /// Returns the scope of the names of an account's records.
    ///
    /// Records with another scope are not found; see ``Authority/misplacedCollections()``.
    func scope(of account: Identifier) -> Identifier? { access == .owner ? account : nil }
}

extension String {
    /// The text without accents and in lower case, with single spaces, for searches.
    var folded: String {
        var folded = ""
        var isSpace = true
        for scalar in decomposedStringWithCanonicalMapping.unicodeScalars
        where scalar.properties.generalCategory != .nonspacingMark {
            if scalar.properties.isWhitespace {
                if !isSpace { folded += " " }
                isSpace = true
                continue
            }
            isSpace = false
            let lower = scalar.properties.lowercaseMapping
            folded += Self.plainLetters[lower] ?? lower
        }
        return folded.precomposedStringWithCanonicalMapping
    }

    /// Letters that Unicode does not decompose, and the ones that are typed for them.
    private static let plainLetters = [
        "\u{DF}": "ss", "\u{E6}": "ae", "\u{F8}": "o", "\u{F0}": "d", "\u{FE}": "th",
        "\u{111}": "d", "\u{131}": "i", "\u{142}": "l", "\u{153}": "oe", "\u{3C2}": "\u{3C3}",
    ]
}
