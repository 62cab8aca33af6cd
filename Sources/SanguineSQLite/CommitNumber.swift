import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// The number of the last commit, which is incremented by each commit.
///
/// It is stored in the table `commits`, which has one row on one page.
///
/// The log must continue the database file without a gap. Copying a folder in use can break this:
/// `sanguine.sqlite` is copied, the server checkpoints and restarts its log, and then
/// `sanguine.sqlite-wal` is copied. SQLite opens such a pair without an error, but the pages that
/// were checkpointed in between are missing. The numbers reveal it: the first commit in the log
/// must be at most one more than the one in the database file, and the last one must not be
/// smaller.
///
/// Both numbers are read from the files themselves, because SQLite shows only the newest version of
/// a page (<https://www.sqlite.org/fileformat2.html>, sections 1.6 and 4).
enum CommitNumber {
    /// Increments the number, in the transaction that is about to be committed.
    static let raise = "UPDATE commits SET number = number + 1"
    /// Returns the page of the number, or nothing if an older version wrote the database, or its
    /// upgrade was interrupted.
    static let page = "SELECT rootpage FROM sqlite_master WHERE name = 'commits'"
    /// Returns the newest number.
    ///
    /// The statement cannot be compiled without the table.
    static let newest = "SELECT number FROM commits"

    /// Returns whether the log belongs to another state of the database file.
    ///
    /// An unreadable page is ignored, because a crash may leave it half-written.
    ///
    /// - Parameters:
    ///   - folder: The data folder. No other process may change it while this method runs.
    ///   - page: The page of the number.
    ///   - newest: The number that SQLite shows.
    /// - Returns: Whether commits are missing between the two, or the log is older.
    /// - Throws: The error that prevented reading the files. It implies nothing about their state.
    static func isMixed(
        _ folder: DataFolder,
        page: Int,
        newest: Int64
    ) throws(ChunkedReader.Failure) -> Bool {
        guard let log = try WriteAheadLog(folder.walPath),
            let first = try log.firstCommitted(page).flatMap({ number(in: $0) })
        else { return false }
        let file = try ChunkedReader.read(
            folder.databasePath,
            from: (page - 1) * log.pageSize,
            log.pageSize
        )
        // A page that is missing in the file was never checkpointed.
        let stored = file.isEmpty ? 0 : number(in: file)
        guard let stored else { return false }
        return first > stored + 1 || newest < stored
    }

    /// Parses the number from the table's page, a leaf with one cell.
    static func number(in page: [UInt8]) -> Int64? {
        guard page.count >= 512, page[0] == 0x0D, page[3] == 0, page[4] == 1 else { return nil }
        var reader = CellReader(bytes: page, position: Int(page[8]) << 8 | Int(page[9]))
        // The cell contains the record's size and the rowid. The record contains the size of its
        // header, the type of the id (NULL, because the rowid represents it), and the type of the
        // number.
        guard reader.varint() != nil, reader.varint() == 1, reader.varint() == 3,
            reader.varint() == 0, let type = reader.varint()
        else { return nil }
        switch type {
        case 8: return 0
        case 9: return 1
        case 1...4: return reader.integer(bytes: Int(type))
        case 5: return reader.integer(bytes: 6)
        case 6: return reader.integer(bytes: 8)
        default: return nil
        }
    }
}

/// Parses the parts of a cell of a table.
private struct CellReader {
    let bytes: [UInt8]
    var position: Int

    private mutating func byte() -> UInt8? {
        guard bytes.indices.contains(position) else { return nil }
        defer { position += 1 }
        return bytes[position]
    }

    mutating func varint() -> Int64? {
        var value: Int64 = 0
        for index in 0..<9 {
            guard let byte = byte() else { return nil }
            if index == 8 { return value << 8 | Int64(byte) }
            value = value << 7 | Int64(byte & 0x7F)
            if byte & 0x80 == 0 { return value }
        }
        return nil
    }

    mutating func integer(bytes count: Int) -> Int64? {
        var value: Int64 = 0
        for index in 0..<count {
            guard let byte = byte() else { return nil }
            value = index == 0 ? Int64(Int8(bitPattern: byte)) : value << 8 | Int64(byte)
        }
        return value
    }
}

/// A log file of SQLite, parsed for the pages of its commits.
struct WriteAheadLog {
    /// The bytes of a page.
    let pageSize: Int
    private let path: String
    private let header: [UInt8]

    private static let headerSize = 32
    private static let frameHeaderSize = 24

    /// Reads the header, or returns `nil` if there is no log or it is empty.
    init?(_ path: String) throws(ChunkedReader.Failure) {
        header = try ChunkedReader.read(path, from: 0, Self.headerSize)
        self.path = path
        guard header.count == Self.headerSize, header.word(0) & ~1 == 0x377F_0682 else {
            return nil
        }
        pageSize = Int(header.word(8))
        guard (512...65_536).contains(pageSize) else { return nil }
    }

    /// Returns the page as written by the first commit that contains it, or `nil` if there is none.
    ///
    /// Only frames with the log's salts and with valid checksums count; SQLite ignores all others.
    func firstCommitted(_ page: Int) throws(ChunkedReader.Failure) -> [UInt8]? {
        var sum = Checksum(isBigEndian: header[3] & 1 == 1)
        sum.add(header[..<24])
        guard sum.matches(header, at: 24) else { return nil }
        var found: [UInt8]?
        var offset = Self.headerSize
        while true {
            let size = Self.frameHeaderSize + pageSize
            let frame = try ChunkedReader.read(path, from: offset, size)
            guard frame.count == size, frame[8..<16].elementsEqual(header[16..<24]) else {
                return nil
            }
            sum.add(frame[..<8])
            sum.add(frame[Self.frameHeaderSize...])
            guard sum.matches(frame, at: 16) else { return nil }
            if Int(frame.word(0)) == page { found = Array(frame[Self.frameHeaderSize...]) }
            let isCommit = frame.word(4) != 0
            if isCommit, let found { return found }
            offset += size
        }
    }

    /// The running checksum of a log.
    private struct Checksum {
        let isBigEndian: Bool
        var first: UInt32 = 0
        var second: UInt32 = 0

        init(isBigEndian: Bool) { self.isBigEndian = isBigEndian }

        mutating func add(_ bytes: ArraySlice<UInt8>) {
            var index = bytes.startIndex
            while index + 8 <= bytes.endIndex {
                first &+= word(bytes, index) &+ second
                second &+= word(bytes, index + 4) &+ first
                index += 8
            }
        }

        func matches(_ bytes: [UInt8], at offset: Int) -> Bool {
            bytes.word(offset) == first && bytes.word(offset + 4) == second
        }

        private func word(_ bytes: ArraySlice<UInt8>, _ index: Int) -> UInt32 {
            let word =
                UInt32(bytes[index]) << 24 | UInt32(bytes[index + 1]) << 16
                | UInt32(bytes[index + 2]) << 8 | UInt32(bytes[index + 3])
            return isBigEndian ? word : word.byteSwapped
        }
    }
}

extension [UInt8] {
    /// Returns four bytes as a number, most significant byte first.
    fileprivate func word(_ offset: Int) -> UInt32 {
        self[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) }
    }
}
