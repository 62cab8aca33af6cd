import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Stored arrays remain arrays.
@Suite("Stored arrays", .bounded)
struct StoredArrayTests {
    private let folder = TemporaryFolder()

    private struct Song: Codable, Sendable, Equatable {
        var title: String
        var marks: [[Int?]]
    }

    /// The same type in a later version of the app.
    private struct RatedSong: Codable, Sendable, Equatable, Defaulted {
        static let defaults = RatedSong(title: "", marks: [], stars: [3], notes: [[]])
        var title: String
        var marks: [[Int?]]
        var stars: [Int]
        var notes: [[String]]?
    }

    private static func query<Value: Codable & Sendable & Equatable>(
        _ name: String,
        _: Value.Type = Value.self
    ) -> ValueQuery<Value> {
        ValueQuery(name, policy: .fresh(for: .minutes(5)).stored(.onDisk)) { _ in
            throw CancellationError()
        }
    }

    /// Stores a value and returns what the next process reads, as the same type or another.
    private func stored<Value: Codable & Sendable & Equatable, Other>(
        _ value: Value,
        as other: Other.Type
    ) throws -> Other? where Other: Codable & Sendable & Equatable {
        let first = try TestClient(folder: folder)
        first.client.set(value, for: Self.query("value", Value.self))
        first.client.queries.entries.flush()
        first.client.close()
        let second = try TestClient(folder: folder, seed: 2)
        defer { second.client.close() }
        return second.client.cached(Self.query("value", Other.self))
    }

    @Test func `an array is unchanged after a restart, however it is nested`() throws {
        let values: [[[[Int?]]]] = [
            [], [[]], [[], [[]]], [[[1, nil]], [], [[nil], [nil, nil]]],
        ]
        for value in values {
            #expect(try stored(value, as: [[[Int?]]].self) == value)
        }
        #expect(try stored([nil, "a", nil], as: [String?].self) == [nil, "a", nil])
        let named: [[String: [Int]]] = [["a": []], [:]]
        #expect(try stored(named, as: [[String: [Int]]].self) == named)
        let songs = [Song(title: "a", marks: []), Song(title: "b", marks: [[], [nil, 1]])]
        #expect(try stored(songs, as: [Song].self) == songs)
    }

    @Test func `an array is decoded as a later version of its element type`() throws {
        let songs = [Song(title: "a", marks: []), Song(title: "b", marks: [[], [nil, 1]])]
        let later = songs.map {
            RatedSong(title: $0.title, marks: $0.marks, stars: [3], notes: nil)
        }
        #expect(try stored(songs, as: [RatedSong].self) == later)
        #expect(try stored([Song](), as: [RatedSong].self) == [])
    }

    @Test func `an array is not decoded as a type with a different shape`() throws {
        #expect(try stored([[1]], as: [String: Int].self) == nil)
        #expect(try stored([[1]], as: [Int].self) == nil)
        #expect(try stored(["a", nil], as: [String].self) == nil)
    }
}
