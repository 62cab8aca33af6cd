import Foundation
import SanguineModel
import SanguineTesting
import Testing

@testable import SanguineAuthority

/// Creates or replaces a record.
struct PutRecord: RecordMutation {
    static let name = "test.put"
    let collection: String
    let id: RecordID
    let fields: RecordFields

    func apply(to records: inout Records) throws {
        records.put(RecordValue(fields), for: RecordKey(collection, id))
    }
}

/// An authority over any storage, with guests and registered accounts.
struct MergeWorld {
    let storage: any Storage
    let clock = ManualWallClock()
    let authority: Authority

    init(
        over storage: any Storage,
        _ change: (inout AuthoritySettings) -> Void = { _ in }
    ) {
        var settings = AuthoritySettings()
        settings.schema = RecordSchema(
            collections: [
                RecordCollection("notes", indexes: ["day"]),
                RecordCollection("posts", access: .everyone, indexes: ["tag"]),
                RecordCollection("theirs", onMerge: .guest),
                RecordCollection("ours", onMerge: .account),
            ],
            mutations: [PutRecord.self]
        )
        change(&settings)
        self.storage = storage
        authority = Authority(
            storage: storage,
            keys: SigningKeys(),
            settings: settings,
            clock: clock
        )
    }

    // MARK: - Accounts

    func device(_ number: Int, timeZone: String? = nil) -> GuestRequest {
        let bytes = (0..<32).map { UInt8(truncatingIfNeeded: $0 == 0 ? number >> 8 : number) }
        return GuestRequest(
            deviceId: "device-number-\(number)-of-all",
            deviceSecret: Base64URL.encode(bytes),
            timeZone: timeZone
        )
    }

    /// Signs a device in, which creates its guest at first.
    func guest(_ number: Int, timeZone: String? = nil) async throws -> Identity {
        let signedIn = try await authority.guest(device(number, timeZone: timeZone)).signedIn
        return try await authority.tokens.verify(signedIn.session.accessToken)
    }

    /// Creates a registered account.
    func registered(_ number: Int) async throws -> Identity {
        let email = "user\(number)@example.org"
        let guest = try await guest(10_000 + number)
        let (signedIn, _) = try await authority.register(.email(email), email: email, guest)
        return try await authority.tokens.verify(signedIn.session.accessToken)
    }

    // MARK: - Requests

    func spend(_ who: Identity, _ amount: Int64, _ key: String) async throws(Problem) -> Answer {
        try await authority.spend(who.account, Self.submission(key, amount))
    }

    func hold(_ who: Identity, _ amount: Int64, _ key: String) async throws(Problem) -> Answer {
        let submission = Submission(
            key: key,
            fingerprint: Fingerprint("hold", "\(amount)"),
            content: .success(HoldRequest(amount: amount))
        )
        return try await authority.hold(who.account, submission)
    }

    /// Takes back tokens of a purchase, also those that were spent.
    func refund(_ who: Identity, _ amount: Int64) async throws {
        let now = clock.now()
        let command = Command(keys: [.balance(who.account)]) { loaded throws(Problem) in
            guard let balance = loaded.balance(who.account) else { throw .noAccount }
            var draft = LedgerDraft(balance, now: now)
            draft.refund(amount, reason: "refund")
            return Decision((), changes: draft.changes)
        }
        try await authority.perform(command)
    }

    @discardableResult
    func consume(_ who: Identity, _ amount: Int64 = 1) async throws(Problem) -> Answer {
        let submission = Submission(
            key: Identifier(at: clock.now()).description,
            fingerprint: Fingerprint("consume"),
            content: .success(ConsumeRequest(amount: amount))
        )
        return try await authority.consume("readings", who.account, submission)
    }

    static func submission(_ key: String, _ amount: Int64) -> Submission<SpendRequest> {
        Submission(
            key: key,
            fingerprint: Fingerprint("spend", "\(amount)"),
            content: .success(SpendRequest(amount: amount, reason: "tea"))
        )
    }

    /// Accepts a call that is sent upstream.
    func call(
        _ who: Identity,
        _ key: String,
        hold: Int64,
        units: Int64 = 0
    ) async throws -> AcceptedCall {
        let quota = units > 0 ? Price.QuotaPrice("readings", units: units) : nil
        let terms = CallTerms(
            operation: Identifier(at: clock.now()),
            function: "ask",
            hold: hold,
            quota: quota,
            life: .seconds(600)
        )
        let start = try await authority.start(
            who.account,
            Submission(key: key, fingerprint: Fingerprint("ask"), content: .success(terms))
        )
        guard case .accepted(let call) = start else {
            throw Problem(.internalFault, "The call was replayed.")
        }
        return call
    }

    /// Writes a record, and returns the operation.
    @discardableResult
    func write(
        _ who: Identity,
        _ collection: String,
        _ id: String,
        _ fields: [String: JSONValue]?
    ) async throws -> PushedOperation {
        let operation = Self.operation(collection, id, fields, at: clock.now())
        let results = try await push(who, [operation]).results
        #expect(results.map(\.status) == [.applied])
        return operation
    }

    static func operation(
        _ collection: String,
        _ id: String,
        _ fields: [String: JSONValue]?,
        at now: Timestamp
    ) -> PushedOperation {
        var arguments: [String: JSONValue] = [
            "collection": .string(collection), "id": .string(id),
        ]
        if let fields { arguments["fields"] = .object(fields) }
        return PushedOperation(
            id: Identifier(at: now),
            sequence: 1,
            lane: "\(collection)/\(id)",
            mutator: fields == nil ? "record.delete" : PutRecord.name,
            arguments: .object(arguments)
        )
    }

    func push(
        _ who: Identity,
        _ operations: [PushedOperation]
    ) async throws(Problem) -> PushAnswer {
        let request = PushRequest(device: "a-device-of-mine", operations: operations)
        return try await authority.push(who.account, request)
    }

    func addFile(_ number: Int, size: Int64, to who: Identity) async throws {
        let row = BlobRow(
            account: who.account,
            id: .sample(number),
            size: size,
            type: "image/png",
            createdAt: clock.now()
        )
        let commands = BlobCommands(bytesPerAccount: authority.settings.bytesPerAccount)
        _ = try await storage.perform(commands.add(row)).get()
    }

    // MARK: - Views

    /// Returns the live records of an account's feed, as `collection/id` and their JSON.
    func records(_ who: Identity, since: Int64 = 0) async throws -> [String: JSONValue] {
        var found: [String: JSONValue] = [:]
        var since = since
        while true {
            let page = try await authority.pull(
                who.account,
                Authority.PullRequest(since: since, limit: 100)
            )
            for change in page.changes where !change.collection.hasPrefix("$") {
                found["\(change.collection)/\(change.id)"] = change.deleted ? nil : change.value
            }
            guard page.hasMore else { return found }
            since = page.next
        }
    }

    func feed(_ account: Identifier) async throws -> FeedRow? {
        try await storage.load([.feed(account)]).feed(account)
    }

    func used(_ who: Identity) async throws -> Int64? {
        try await authority.quotas(who.account).0.items.first?.used
    }

    /// Checks that every balance is the sum of its entries, and everything sums to zero.
    func checkSums(_ place: Comment? = nil) async throws {
        #expect(try await storage.verifyLedger().differences == [], place)
    }

    /// Checks the counted records and bytes of an account against its feed.
    func checkCounts(_ who: Identity, files: Int64 = 0, fileBytes: Int64 = 0) async throws {
        let slice = try await storage.feed(FeedQuery(of: who.account, after: 0, limit: .max))
        let feed = try #require(try await feed(who.account))
        let live = slice.records.filter { $0.deletedAt == nil }
        let bytes = slice.records.reduce(0) { $0 + $1.storedBytes }
        #expect(feed.records == Int64(live.count))
        #expect(feed.tombstones == Int64(slice.records.count - live.count))
        #expect(feed.threads == Int64(live.count { $0.name.collection == "$threads" }))
        #expect(feed.bytes == bytes + fileBytes + files * RecordRow.overheadBytes)
    }

    /// Returns the problem with which the body is refused.
    func refusal<Value>(_ body: () async throws(Problem) -> Value) async -> Problem? {
        do throws(Problem) {
            _ = try await body()
            return nil
        } catch {
            return error
        }
    }
}
