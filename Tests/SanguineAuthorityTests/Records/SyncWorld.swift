import Foundation
public import SanguineModel
import Testing

@testable import SanguineAuthority

/// An authority in memory with an account, whose devices push and pull.
struct SyncWorld {
    let storage = MemoryStorage()
    let clock = ManualClock()
    let authority: Authority
    let account: Identifier

    init(_ change: (inout AuthoritySettings) -> Void = { _ in }) async throws {
        var settings = AuthoritySettings()
        settings.schema = .test
        // A quota that was never used is in the feed too.
        settings.quotas = [:]
        change(&settings)
        authority = Authority(
            storage: storage,
            keys: SigningKeys(),
            settings: settings,
            clock: clock
        )
        account = try await Self.account(authority, device: 1)
    }

    /// Creates another account; each number is a different one.
    func stranger(_ number: UInt8 = 2) async throws -> Identifier {
        try await Self.account(authority, device: number)
    }

    private static func account(_ authority: Authority, device: UInt8) async throws -> Identifier {
        let secret = Base64URL.encode([UInt8](repeating: device, count: 32))
        let guest = GuestRequest(deviceId: "device-of-number-\(device)", deviceSecret: secret)
        return try await authority.guest(guest).signedIn.account.id
    }

    /// Pushes mutations, each as an operation with a new id.
    @discardableResult
    func push(
        _ mutations: any RecordMutation...,
        by account: Identifier? = nil
    ) async throws -> [PushResult] {
        let operations = try mutations.enumerated().map { index, mutation in
            try PushedOperation.sample(mutation, sequence: Int64(index) + 1)
        }
        return try await push(operations, by: account).results
    }

    func push(
        _ operations: [PushedOperation],
        by account: Identifier? = nil
    ) async throws(Problem) -> PushAnswer {
        let request = PushRequest(device: "a-device-of-mine", operations: operations)
        return try await authority.push(account ?? self.account, request)
    }

    func pull(
        _ since: Int64 = 0,
        limit: Int? = nil,
        horizon: Int64? = nil,
        by account: Identifier? = nil
    ) async throws -> PullAnswer {
        try await authority.pull(
            account ?? self.account,
            Authority.PullRequest(since: since, limit: limit, horizon: horizon)
        )
    }

    /// Returns the live records of the app's collections by key.
    func records(by account: Identifier? = nil) async throws -> [RecordKey: JSONValue] {
        var found: [RecordKey: JSONValue] = [:]
        for change in try await pull(limit: 1_000, by: account).changes {
            if change.collection.hasPrefix("$") { continue }
            found[RecordKey(change.collection, change.id)] = change.value
        }
        return found
    }
}

extension PushedOperation {
    static func sample(
        _ mutation: some RecordMutation,
        id: Identifier = Identifier(at: ManualClock.start),
        sequence: Int64 = 1
    ) throws -> PushedOperation {
        let arguments = try JSONEncoder().encode(mutation)
        return PushedOperation(
            id: id,
            sequence: sequence,
            lane: mutation.lane,
            mutator: type(of: mutation).name,
            arguments: try JSONDecoder().decode(JSONValue.self, from: arguments)
        )
    }
}

extension RecordSchema {
    /// Private `notes` with an index on `day`, and public `posts` with one on `tag`.
    static let test = RecordSchema(
        collections: [
            RecordCollection("notes", indexes: ["day"]),
            RecordCollection("posts", access: .everyone, indexes: ["createdAt", "tag"]),
        ],
        mutations: [CreateMany.self, CountByDay.self, Stumble.self, PutPost.self]
    )
}

/// Creates or replaces several notes at once.
struct CreateMany: RecordMutation {
    static let name = "test.many"
    let ids: [RecordID]
    let text: String

    func apply(to records: inout Records) throws {
        for id in ids { records.put(RecordValue(["text": .string(text)]), for: .note(id)) }
    }
}

/// Creates or replaces a post with its own creation time.
struct PutPost: RecordMutation {
    static let name = "test.post"
    let id: RecordID
    let createdAt: String

    func apply(to records: inout Records) throws {
        records.put(RecordValue(["createdAt": .string(createdAt)]), for: .post(id))
    }
}

/// Stores the number of notes of a day in a note.
struct CountByDay: RecordMutation {
    static let name = "test.count"
    let into: RecordID
    let day: String

    func apply(to records: inout Records) throws {
        let found = records.keys(in: "notes", where: "day", is: .string(day))
        records.put(RecordValue(["count": .integer(Int64(found.count))]), for: .note(into))
    }
}

/// Changes a note, and is then refused.
struct Stumble: RecordMutation {
    static let name = "test.stumble"
    let id: RecordID

    func apply(to records: inout Records) throws {
        records.put(RecordValue(["text": "half"]), for: .note(id))
        throw Refusal(ProblemCode(rawValue: "too_clumsy"), "Walk more slowly.")
    }
}

extension RecordKey {
    static func note(_ id: RecordID) -> RecordKey { RecordKey("notes", id) }
    static func post(_ id: RecordID) -> RecordKey { RecordKey("posts", id) }
}

extension RecordID: ExpressibleByStringLiteral {
    /// Creates an id from a literal in a test.
    public init(stringLiteral text: String) {
        guard let id = RecordID(text) else { preconditionFailure("'\(text)' is not a record id.") }
        self = id
    }
}
