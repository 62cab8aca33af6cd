import Foundation
import GRDB
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority
@testable import SanguineSQLite

/// The data that is left after an account was deleted, in all tables of the database.
///
/// An account gets a marked text in each column that holds something of a person. A new table fails
/// the test until it is marked here, or listed as one without personal data.
@Suite("SQLite storage: deleted accounts", .bounded)
struct RemovedDataTests {
    /// Every text of the account contains this one.
    private static let mark = "zqmark"
    /// The zone of the account's devices.
    private static let zone = "Antarctica/Vostok"
    /// The tables that hold nothing of a person: numbers, hashes, names of the schema, and what
    /// administrators did.
    private static let unmarked: Set<String> = [
        "balances", "feeds", "meta", "commits", "indexes", "audit", "blobs",
    ]
    /// The columns that keep their text forever: the reasons and labels of the append-only ledger,
    /// which the app chooses.
    private static let kept: Set<String> = ["transfers.reason", "transfers.labels"]
    /// The columns that keep it for a limited time, until a sweep: parts of streamed answers, whose
    /// run several accounts can share; keys and labels of calls in settled holds; the devices of
    /// ended sessions; and the ids of public records, which stay reserved.
    private static let swept: Set<String> = [
        "parts.texts", "holds.operation", "holds.labels", "sessions.device", "records.id",
    ]

    private let folder = TestFolder()
    private let clock = ManualWallClock()

    private func authority(_ storage: SQLiteStorage) -> Authority {
        Authority(storage: storage, keys: SigningKeys(), clock: clock)
    }

    private func guest(_ number: UInt8, _ authority: Authority) async throws -> Identity {
        let signedIn = try await authority.guest(
            GuestRequest(
                deviceId: "\(Self.mark)-device-\(number)",
                deviceSecret: Base64URL.encode([UInt8](repeating: number, count: 32)),
                timeZone: Self.zone,
                language: "gsw-CH",
                deviceName: "\(Self.mark) phone"
            )
        ).signedIn
        return try await authority.tokens.verify(signedIn.session.accessToken)
    }

    /// Returns the columns of all tables that contain a marked text, as `table.column`.
    private func marked() throws -> (columns: Set<String>, tables: Set<String>) {
        var configuration = Configuration()
        configuration.readonly = true
        let path = folder.file("sanguine.sqlite").path
        let database = try DatabaseQueue(path: path, configuration: configuration)
        let texts = [Data(Self.mark.utf8), Data(Self.zone.utf8), Data("gsw-CH".utf8)]
        return try database.read { database in
            let tables = try String.fetchSet(
                database,
                sql: """
                    SELECT name FROM sqlite_master
                    WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
                    """
            )
            var columns: Set<String> = []
            for table in tables {
                for row in try GRDB.Row.fetchAll(database, sql: "SELECT * FROM \(table)") {
                    for (column, value) in row {
                        let bytes: Data? =
                            switch value.storage {
                            case .string(let text): Data(text.utf8)
                            case .blob(let data): data
                            default: nil
                            }
                        guard let bytes else { continue }
                        if texts.contains(where: { bytes.range(of: $0) != nil }) {
                            columns.insert("\(table).\(column)")
                        }
                    }
                }
            }
            return (columns, tables)
        }
    }

    private func store(_ changes: [Change], in storage: SQLiteStorage) async throws {
        try await storage.perform(Command(keys: []) { _ in Decision((), changes: changes) }).get()
    }

    /// Fills every table and every kind of document with rows of an account.
    private func fill(_ owner: Identifier, _ storage: SQLiteStorage) async throws {
        let (mark, now) = (Self.mark, clock.now())
        let json = Array(#"{"text":"\#(mark)"}"#.utf8)
        let run = Identifier(at: now)
        // These belong to no account.
        let kinds = Set(DocumentKind.allCases).subtracting([.removal, .deviceGrant])
        var rows: [SanguineAuthority.Row] = kinds.map {
            // Transactions of a store are kept, without a person; see `StorePurchase`.
            let prefix = $0 == .purchase ? PlanSources.prefix : ""
            let id = $0 == .merge ? Identifier(at: now).description : "\(prefix)\(mark) \(owner)"
            return .document(DocumentRow(kind: $0, id: id, account: owner, body: json))
        }
        rows += [
            .quota(
                QuotaRow(
                    account: owner,
                    name: mark,
                    day: CalendarDay(daysSince1970: 1),
                    used: 1,
                    resetsAt: now,
                    seq: 3
                )
            ),
            .result(
                ResultRow(
                    key: Array(owner.bytes + owner.bytes),
                    account: owner,
                    function: "ask",
                    output: json,
                    madeAt: now,
                    expiresAt: now + .seconds(60)
                )
            ),
            .parts(PartsRow(run: run, first: 0, texts: Array(#"["\#(mark)"]"#.utf8), at: now)),
        ]
        rows += callRows(owner, run, json)
        try await store(rows.map { .put($0) }, in: storage)
    }

    /// Returns the rows of a call, and of a file.
    private func callRows(
        _ owner: Identifier,
        _ run: Identifier,
        _ json: [UInt8]
    ) -> [SanguineAuthority.Row] {
        let (mark, now) = (Self.mark, clock.now())
        return [
            .operation(
                OperationRow(
                    account: owner,
                    key: "\(mark) call",
                    fingerprint: [1],
                    state: .done(StoredAnswer(status: 200, body: json, head: 1)),
                    at: now,
                    run: run
                )
            ),
            .hold(
                HoldRow(
                    id: Identifier(at: now),
                    account: owner,
                    amount: 1,
                    expiresAt: now,
                    state: .captured(1),
                    reason: "ask",
                    operation: "\(mark) call",
                    labels: ChargeLabels(tag: mark)
                )
            ),
            .blob(
                BlobRow(
                    account: owner,
                    id: BlobID(of: json),
                    size: 1,
                    type: "image/png",
                    createdAt: now
                )
            ),
        ]
    }

    /// Creates an account with data everywhere, whose device has left one guest, and into which
    /// another one was merged.
    private func account(_ storage: SQLiteStorage) async throws -> Identifier {
        let authority = authority(storage)
        let (merged, owner) = (try await guest(1, authority), try await guest(2, authority))
        _ = try await guest(3, authority)
        let mark = Self.mark
        let code = try await authority.issueMoveCode(owner, MoveCodeRequest()).code
        _ = try await authority.redeemMoveCode(
            RedeemRequest(
                code: code,
                deviceId: "\(mark)-device-3",
                deviceSecret: Base64URL.encode([UInt8](repeating: 3, count: 32))
            ),
            from: nil
        )
        // Both use the same key, so that the merge leaves the guest's operation where it is.
        for identity in [merged, owner] {
            let request = SpendRequest(amount: 1, reason: "\(mark) tea")
            var submission = Submission(
                key: "\(mark) key",
                fingerprint: Fingerprint("spend"),
                content: .success(request)
            )
            submission.labels = ChargeLabels(tag: mark)
            _ = try await authority.spend(identity.account, submission)
        }
        let email = "\(mark)@example.org"
        let login = Login.Name.email(email)
        let (signedIn, _) = try await authority.register(login, email: email, owner)
        _ = try await authority.merge(merged, into: owner.account)
        _ = try await authority.patchAccount(
            owner.account,
            .object(["displayName": .string(mark), "settings": .object(["a": .string(mark)])])
        )
        let operations = ["notes", "posts"].enumerated().map { index, collection in
            PushedOperation(
                id: Identifier(at: clock.now()),
                sequence: Int64(index + 1),
                lane: "a",
                mutator: "record.create",
                arguments: .object([
                    "collection": .string(collection), "id": .string("\(mark)-\(index)"),
                    "fields": .object([
                        "text": .string(mark), "createdAt": .string(mark),
                    ]),
                ])
            )
        }
        _ = try await authority.push(
            owner.account,
            PushRequest(device: "\(mark)-device-2", operations: operations)
        )
        try await fill(owner.account, storage)
        return signedIn.account.id
    }

    @Test func `nothing of a deleted account is left in any table`() async throws {
        let storage = try SQLiteStorage(folder: folder.url)
        let authority = authority(storage)
        let account = try await account(storage)
        let before = try marked()
        let tables = before.columns.compactMap { $0.split(separator: ".").first.map(String.init) }
        #expect(before.tables == Set(tables).union(Self.unmarked), "mark or list each table")

        let note = AuditNote(actor: "a", role: "owner", action: "b", account: nil, reason: "c")
        _ = try await authority.deleteAccount(account, by: note)
        clock.advance(by: .seconds(61))
        var walk = RemovalWalk()
        while try await authority.removeSome(of: account, &walk) == .removed {}
        #expect(try await authority.removalStatus(account)?.state == .done)
        #expect(try marked().columns.subtracting(Self.swept) == Self.kept)

        clock.advance(by: .seconds(40 * 86_400))
        while try await authority.sweep(limit: 1_000) > 0 {}
        #expect(try marked().columns == Self.kept)
        #expect(try await storage.verifyLedger().differences == [])

        // Hashes of the devices' ids, so that a grant is not given to a device twice.
        let grants = DocumentQuery(.deviceGrant, limit: 10)
        #expect(try await storage.documents(grants).count == 3)
        clock.advance(by: DeviceGrant.kept)
        while try await authority.sweep(limit: 1_000) > 0 {}
        #expect(try await storage.documents(grants).isEmpty)
        await storage.close()
    }
}
