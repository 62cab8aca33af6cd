import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// A date is the same after a restart, to the last bit.
@Suite("Stored dates", .bounded)
struct StoredDateTests {
    private struct Stamp: Codable, Sendable, Equatable {
        var date: Date
        var dates: [Date] = []
        var byDate: [Date: Double] = [:]
    }

    private struct Deadline: SanguineModel.SyncedRecord {
        static let collection = RecordCollection("deadlines")
        let id: RecordID
        var date: Date
    }

    private struct Postpone: RecordMutation {
        static let name = "deadline.postpone"
        let id: RecordID
        let date: Date

        func apply(to records: inout Records) throws {
            records.set(Deadline(id: id, date: date))
        }
    }

    private struct Play: RemoteMutation {
        static let name = "song.playAt"
        let date: Date

        func effects(on view: inout MutationEffects) {
            view.update(StoredDateTests.query) { $0.date = date }
        }

        func send(_ request: MutationContext) async throws {
            try await request.post("plays", ["date": date])
        }
    }

    private static let query = ValueQuery<Stamp>(
        "stamp",
        policy: .fresh(for: .minutes(5)).stored(.onDisk)
    ) { _ in throw CancellationError() }

    /// Dates that milliseconds can represent, and dates that they cannot.
    static let dates: [Date] = [
        Date(timeIntervalSinceReferenceDate: 0), Date(timeIntervalSinceReferenceDate: 0.1),
        Date(timeIntervalSince1970: 1_763_752_719.25),
        Date(timeIntervalSinceReferenceDate: 785_529_600.123_456_7),
        Date(timeIntervalSinceReferenceDate: (785_529_600.0).nextUp),
        Date(timeIntervalSinceReferenceDate: -1e-9),
        Date(timeIntervalSinceReferenceDate: .leastNormalMagnitude),
        Date(timeIntervalSinceReferenceDate: 1e15), .distantPast, .distantFuture,
        Date(timeIntervalSinceReferenceDate: .infinity),
    ]

    private static func client(_ folder: TemporaryFolder) throws -> SanguineClient {
        try TestClient(folder: folder) { configuration in
            configuration.register(Play.self)
            configuration.connectivity = ManualConnectivity(isOnline: false)
            configuration.schema = RecordSchema(
                collections: [Deadline.collection],
                mutations: [Postpone.self]
            )
        }
        .client
    }

    private static func bits(_ date: Date?) -> UInt64? {
        date?.timeIntervalSinceReferenceDate.bitPattern
    }

    @Test(arguments: dates)
    func `a cached date is the same after a restart`(date: Date) throws {
        let folder = TemporaryFolder()
        let first = try Self.client(folder)
        let stamp = Stamp(date: date, dates: [date, date + 0.000_3], byDate: [date: 0.1])
        #expect(first.set(stamp, for: Self.query))
        first.close()
        let second = try Self.client(folder)
        defer { second.close() }

        #expect(second.cached(Self.query) == stamp)
        #expect(Self.bits(second.cached(Self.query)?.date) == Self.bits(date))
    }

    @Test func `a row of an earlier version is decoded`() throws {
        let json = Data(#"{"byDate":[],"date":"2026-11-21T19:18:39.250Z","dates":[]}"#.utf8)
        let stamp = try StoredCoding.decode(Stamp.self, from: json)

        #expect(stamp.date == Timestamp("2026-11-21T19:18:39.250Z")?.date)
    }

    @Test func `non-finite numbers are kept too`() throws {
        let values = [Double.infinity, -.infinity, 0.1, -0.0, .leastNonzeroMagnitude]
        let kept = try StoredCoding.decode(
            [Double].self,
            from: StoredCoding.encode(values + [.nan])
        )

        #expect(kept.dropLast().map(\.bitPattern) == values.map(\.bitPattern))
        #expect(kept.last?.isNaN == true)
    }

    @Test(arguments: dates.dropLast())
    func `an operation's date is the same after a restart`(date: Date) throws {
        let folder = TemporaryFolder()
        let id = try #require(RecordID("deadline"))
        let first = try Self.client(folder)
        try first.perform(Postpone(id: id, date: date))
        first.close()
        let second = try Self.client(folder)
        defer { second.close() }

        #expect(Self.bits(second.record(Deadline.self, id)?.date) == Self.bits(date))
    }

    @Test(arguments: dates.dropLast())
    func `a mutation's date is the same after a restart`(date: Date) throws {
        let folder = TemporaryFolder()
        let first = try Self.client(folder)
        #expect(first.set(Stamp(date: .distantPast), for: Self.query))
        try first.perform(Play(date: date))
        first.close()
        let second = try Self.client(folder)
        defer { second.close() }

        #expect(Self.bits(second.cached(Self.query)?.date) == Self.bits(date))
    }

    @Test func `dates are sent in RFC 3339 with milliseconds`() throws {
        let date = Date(timeIntervalSince1970: 1_763_752_719.250_5)
        let text = String(decoding: try WireCoding.encode([date]), as: UTF8.self)

        #expect(text == #"["2025-11-21T19:18:39.250Z"]"#)
    }

    @Test func `two dates within one millisecond are different query parameters`() {
        let date = Date(timeIntervalSince1970: 1_763_752_719.25)
        let keys = [date, date + 0.000_1].map { QueryKey(name: "plays", parameters: [$0]) }

        #expect(keys[0] != keys[1])
        #expect(keys[0].text == #"plays/"2025-11-21T19:18:39.250Z""#)
    }
}
