import Foundation
import GRDB
import SanguineModel

/// The words of one user's messages and titles, in an index of SQLite (FTS5).
///
/// It is made from the records, and can be made again: a damaged file is replaced by an empty one.
/// Places are numbered by the time of their records, so that the newest are found first, and a
/// search ends as soon as it has found enough.
///
/// Words are split by ``SearchWords``; FTS5 only stores them. The words of each place are kept,
/// because FTS5 needs them to remove it.
struct SearchFile: Sendable {
    static let name = "sanguine-search.sqlite"

    /// A record with its words.
    struct Place: Sendable {
        let key: RecordKey
        /// The feed's number of the record's last change.
        let number: Int64
        let time: Timestamp
        let words: [String]
    }

    /// A record that contains the words of a search.
    struct Found: Sendable {
        let key: RecordKey
        let place: Int64
    }

    private let database: DatabaseQueue
    private let isOnDisk: Bool

    /// Opens or creates the index.
    ///
    /// - Parameters:
    ///   - folder: The user's folder; `nil` keeps the index in memory.
    ///   - report: Called with the reason if a file is replaced, or cannot be used.
    /// - Throws: The database's error.
    init(folder: URL?, report: (String) -> Void) throws {
        guard let folder else {
            database = try SQLiteFile.inMemory(Self.label, Self.schema)
            isOnDisk = false
            return
        }
        let file = SQLiteFile(folder.appending(path: Self.name), Self.label, .log, Self.schema)
        do {
            database = try file.open()
        } catch  where SQLiteFile.isDamage(error) || error is SQLiteFile.Unusable {
            file.remove()
            report("The index of messages could not be read, and is rebuilt. (\(error))")
            database = try file.open()
        }
        isOnDisk = true
    }

    /// Removes a damaged index.
    static func remove(from folder: URL) {
        SQLiteFile(folder.appending(path: name), label, .log, nil).remove()
    }

    /// Ends all access.
    func close() { try? database.close() }

    // MARK: - Writing

    /// Replaces the places of records; those that have no words are removed.
    func replace(_ places: [Place], removing gone: [RecordKey]) throws {
        try database.write { database in
            for key in gone { try Self.remove(key, database) }
            for place in places {
                try Self.remove(place.key, database)
                try Self.insert(place, database)
            }
        }
        // If it fails, the log grows, and the next attempt copies it.
        if isOnDisk {
            _ = try? database.writeWithoutTransaction { try $0.checkpoint(.passive) }
        }
    }

    private static func insert(_ place: Place, _ database: Database) throws {
        let words = place.words.joined(separator: " ")
        let number = try freeNumber(at: place.time, database)
        try database.cachedStatement(
            sql: "INSERT INTO place (place, collection, id, number, words) VALUES (?, ?, ?, ?, ?)"
        )
        .execute(
            arguments: [number, place.key.collection, place.key.id.text, place.number, words]
        )
        guard !words.isEmpty else { return }
        try database.cachedStatement(sql: "INSERT INTO word (rowid, words) VALUES (?, ?)")
            .execute(arguments: [number, words])
    }

    private static func remove(_ key: RecordKey, _ database: Database) throws {
        let row = try Row.fetchOne(
            database.cachedStatement(
                sql: "SELECT place, words FROM place WHERE collection = ? AND id = ?"
            ),
            arguments: [key.collection, key.id.text]
        )
        guard let row else { return }
        let (place, words) = (row[0] as Int64, row[1] as String)
        if !words.isEmpty {
            try database.cachedStatement(
                sql: "INSERT INTO word (word, rowid, words) VALUES ('delete', ?, ?)"
            )
            .execute(arguments: [place, words])
        }
        try database.cachedStatement(sql: "DELETE FROM place WHERE place = ?")
            .execute(arguments: [place])
    }

    /// Returns an unused number of a place at a time.
    private static func freeNumber(at time: Timestamp, _ database: Database) throws -> Int64 {
        let first = max(0, min(time.millisecondsSince1970, lastMillisecond)) * placesInMillisecond
        let taken = try Int64.fetchOne(
            database.cachedStatement(
                sql: "SELECT max(place) FROM place WHERE place BETWEEN ? AND ?"
            ),
            arguments: [first, first + placesInMillisecond - 1]
        )
        var number = taken.map { $0 + 1 } ?? first
        while try isTaken(number, database) { number += 1 }
        return number
    }

    private static func isTaken(_ number: Int64, _ database: Database) throws -> Bool {
        let found = try Int64.fetchOne(
            database.cachedStatement(sql: "SELECT place FROM place WHERE place = ?"),
            arguments: [number]
        )
        return found != nil
    }

    private static let placesInMillisecond: Int64 = 1_024
    private static let lastMillisecond: Int64 = 1 << 52

    // MARK: - Reading

    /// Returns the indexed records of a range of ids with the numbers of their last changes.
    ///
    /// - Parameters:
    ///   - collection: The collection.
    ///   - first: The id before the range.
    ///   - last: The last id of the range; `nil` for all.
    ///   - limit: The maximum number of records.
    /// - Returns: The numbers by the ids.
    /// - Throws: The database's error.
    func numbers(
        in collection: String,
        after first: RecordID?,
        through last: RecordID?,
        limit: Int
    ) throws -> [RecordID: Int64] {
        try database.read { database in
            let rows = try Row.fetchAll(
                database.cachedStatement(
                    sql: """
                        SELECT id, number FROM place WHERE collection = ? AND id > ?
                        AND (? IS NULL OR id <= ?) ORDER BY id LIMIT ?
                        """
                ),
                arguments: [collection, first?.text ?? "", last?.text, last?.text, limit]
            )
            return rows.reduce(into: [:]) { numbers, row in
                if let id = RecordID(row[0] as String) { numbers[id] = row[1] }
            }
        }
    }

    /// Returns records with words that begin with each of the given ones, the newest first.
    ///
    /// - Parameters:
    ///   - words: At least one word.
    ///   - place: The place after the first result; `nil` for the newest one.
    ///   - limit: The maximum number of results.
    /// - Returns: The records.
    /// - Throws: The database's error.
    func search(_ words: [String], before place: Int64?, limit: Int) throws -> [Found] {
        // Words have no characters with a meaning to FTS5.
        let pattern = words.map { "\"\(Self.listed($0))\"*" }.joined(separator: " ")
        let longer = words.filter { $0 != Self.listed($0) }
        let hasLonger = longer.map { _ in "AND instr(' ' || p.words, ' ' || ?)" }
        return try database.read { database in
            let rows = try Row.fetchAll(
                database.cachedStatement(
                    sql: """
                        SELECT p.collection, p.id, w.rowid FROM word AS w
                        JOIN place AS p ON p.place = w.rowid
                        WHERE word MATCH ? AND w.rowid < ? \(hasLonger.joined(separator: " "))
                        ORDER BY w.rowid DESC LIMIT ?
                        """
                ),
                arguments: [pattern, place ?? .max] + StatementArguments(longer) + [limit]
            )
            return rows.compactMap { row in
                RecordID(row[1] as String).map { id in
                    Found(key: RecordKey(row[0], id), place: row[2])
                }
            }
        }
    }

    /// Returns the beginning of a word that has a list of its own.
    ///
    /// For a longer beginning, FTS5 would merge the lists of all words with it before the first
    /// result: 24 ms if it is in 100,000 messages.
    private static func listed(_ word: String) -> String {
        String(word.unicodeScalars.prefix(listedCharacters))
    }

    // MARK: - Schema

    private static let label = "sanguine.search"

    private static let listedCharacters = 8
    private static let listedPrefixes =
        (1...listedCharacters).map { "\($0)" }.joined(separator: " ")

    private static let schema = SQLiteFile.Schema(
        version: 2,
        migrate: { database, version in
            guard version == 0 else {
                throw SQLiteFile.Unusable.damaged("it has an older schema (\(version))")
            }
            try database.execute(sql: tables)
        }
    )

    /// The tables.
    ///
    /// `ascii` leaves characters outside of ASCII in the words. Prefixes of up to
    /// ``listedCharacters`` have lists of their own.
    private static let tables = """
        CREATE TABLE place (
            place INTEGER PRIMARY KEY,
            collection TEXT NOT NULL,
            id TEXT NOT NULL,
            number INTEGER NOT NULL,
            words TEXT NOT NULL,
            UNIQUE (collection, id)
        ) STRICT;
        CREATE VIRTUAL TABLE word USING fts5 (
            words, content='place', content_rowid='place', tokenize='ascii',
            prefix='\(listedPrefixes)', detail='none', columnsize=0
        );
        """
}
