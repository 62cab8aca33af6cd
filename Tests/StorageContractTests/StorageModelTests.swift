import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

/// Compares every driver with a model that is too simple to be wrong.
///
/// A failure names the seed. To debug it, replace the range with that one number.
@Suite("Storage contract: random operations", .bounded(.seconds(300)))
struct StorageModelTests {
    @Test(arguments: StorageDriver.allCases, 1...8)
    func `a driver behaves like the model`(driver: StorageDriver, seed: Int) async throws {
        var random = SplitMix64(seed: UInt64(seed))
        var model = Model()
        try await driver.withEmptyStorage { storage in
            for step in 0..<400 {
                let place = Comment(rawValue: "seed \(seed), step \(step)")
                switch Int.random(in: 0..<10, using: &random) {
                case 0..<5:
                    let changes = (0...Int.random(in: 0..<4, using: &random)).map { _ in
                        randomChange(using: &random)
                    }
                    let keys = (0..<3).map { _ in randomRow(using: &random).key }
                    let isRefused = Int.random(in: 0..<5, using: &random) == 0
                    let surplus = SurplusSessions(
                        of: randomAccount(using: &random),
                        kept: .random(in: 0..<3, using: &random)
                    )
                    let command = Command(keys: keys, surplus: surplus) { loaded throws(Problem) in
                        if isRefused { throw Problem(.notFound, "The test refuses the command.") }
                        let found = (keys.map(loaded.row), loaded.surplusSessions)
                        return Decision(found, changes: changes)
                    }
                    let expected = keys.map { model.rows[$0] }
                    switch try await storage.perform(command) {
                    case .success(let (found, sessions)):
                        #expect(found == expected, place)
                        #expect(sessions == model.sessions(surplus), place)
                        for change in changes { model.apply(change) }
                    case .failure:
                        #expect(isRefused, place)
                    }
                case 5:
                    let horizon = SweepHorizon(
                        answers: randomMoment(using: &random),
                        sessions: randomMoment(using: &random),
                        holds: randomMoment(using: &random),
                        tombstones: randomMoment(using: &random),
                        results: randomMoment(using: &random),
                        parts: randomMoment(using: &random)
                    )
                    let count = try await storage.sweep(horizon, limit: 1_000)
                    #expect(count == model.sweep(horizon), place)
                default:
                    try await compare(storage, with: model, place, using: &random)
                }
            }
        }
    }

    private func compare(
        _ storage: any Storage,
        with model: Model,
        _ place: Comment,
        using random: inout SplitMix64
    ) async throws {
        let keys = (0..<4).map { _ in randomRow(using: &random).key }
        let loaded = try await storage.load(keys)
        #expect(keys.map(loaded.row) == keys.map { model.rows[$0] }, place)

        let account = randomAccount(using: &random)
        let all = try await storage.transfers(of: account, before: nil, limit: 1_000)
        let expected = model.transfers.filter { $0.account == account }
        #expect(all.map(\.transfer) == expected.reversed(), place)

        let moment = randomMoment(using: &random)
        let limit = Int.random(in: 0..<6, using: &random)
        let holds = try await storage.openHolds(expiringBy: moment, limit: limit)
        #expect(holds == model.openHolds(expiringBy: moment, limit: limit), place)

        let running = try await storage.runningOperations(after: nil, limit: 1_000)
        #expect(Set(running) == model.running && running.count == model.running.count, place)

        let index = Int64.random(in: 0..<30, using: &random)
        let parts = try await storage.parts(of: account, from: index, limit: 1_000)
        #expect(parts == model.parts(of: account, from: index), place)

        let asked = (0..<3).map { _ in
            BlobID.sample(.random(in: 0..<5, using: &random))
        }
        #expect(try await storage.owned(asked) == model.owned.intersection(asked), place)

        let report = try await storage.verifyLedger()
        #expect(report.transfers == model.transfers.count, place)

        let query = FeedQuery(
            of: account,
            after: .random(in: 0..<100, using: &random),
            limit: .random(in: 1..<4, using: &random),
            liveOnly: .random(using: &random),
            keys: [.feed(account)]
        )
        let slice = try await storage.feed(query)
        let (rows, hasMore) = model.feed(query)
        #expect(slice.records == rows && slice.hasMore == hasMore, place)
        #expect(slice.loaded.row(.feed(account)) == model.rows[.feed(account)], place)
    }
}

private struct Model {
    var rows: [Key: Row] = [:]
    var transfers: [Transfer] = []

    mutating func apply(_ change: Change) {
        switch change {
        case .put(let row): rows[row.key] = row
        case .delete(let key): rows[key] = nil
        case .append(let transfer): transfers.append(transfer)
        case .index, .unindex: break
        case .pruneResults(let account, let kept): prune(account, kept)
        case .rehome(let move): rehome(move)
        }
    }

    private mutating func rehome(_ move: Rehoming) {
        for row in rows.values {
            switch row {
            case .device(var device) where device.account == move.guest:
                device.account = move.account
                device.era = DeviceRow.closed
                rows[row.key] = .device(device)
            case .operation(var operation) where operation.account == move.guest:
                operation.account = move.account
                if case .pushed(_, let refusal) = operation.state {
                    operation.state = .pushed(head: move.head, refusal: refusal)
                } else if case .done(var answer) = operation.state, answer.head != nil {
                    answer.head = move.head
                    operation.state = .done(answer)
                }
                let new = Row.operation(operation)
                guard rows[new.key] == nil else { continue }
                rows[row.key] = nil
                rows[new.key] = new
            case .result(var result) where result.account == move.guest:
                result.account = move.account
                result.key = result.key.prefix(ResultRow.questionBytes) + move.account.bytes
                rows[row.key] = nil
                let new = Row.result(result)
                if rows[new.key] == nil { rows[new.key] = new }
            default: continue
            }
        }
    }

    private mutating func prune(_ account: Identifier?, _ kept: Int) {
        var own: [ResultRow] = []
        for case .result(let row) in rows.values where row.account == account { own.append(row) }
        own.sort { $1.madeAt < $0.madeAt }
        for row in own.dropFirst(kept) { rows[.result(row.key)] = nil }
    }

    func parts(of run: Identifier, from index: Int64) -> [PartsRow] {
        var found: [PartsRow] = []
        for case .parts(let row) in rows.values where row.run == run { found.append(row) }
        found.sort { $0.first < $1.first }
        let before = found.lastIndex { $0.first <= index } ?? 0
        return Array(found.dropFirst(before))
    }

    func openHolds(expiringBy moment: Timestamp, limit: Int) -> [HoldRow] {
        var found: [HoldRow] = []
        for case .hold(let row) in rows.values
        where row.state == .open && row.expiresAt <= moment {
            found.append(row)
        }
        found.sort { ($0.expiresAt, $0.id) < ($1.expiresAt, $1.id) }
        return Array(found.prefix(limit))
    }

    var owned: Set<BlobID> {
        var found: Set<BlobID> = []
        for case .blob(let row) in rows.values { found.insert(row.id) }
        return found
    }

    var running: Set<OperationRow> {
        var found: Set<OperationRow> = []
        for case .operation(let row) in rows.values {
            if case .running = row.state { found.insert(row) }
        }
        return found
    }

    /// No two records of one owner share a number in this game.
    func feed(_ query: FeedQuery) -> (rows: [RecordRow], hasMore: Bool) {
        var found: [RecordRow] = []
        for case .record(let row) in rows.values
        where row.owner == query.account && row.seq > query.after
            && (row.deletedAt == nil || !query.liveOnly)
        {
            found.append(row)
        }
        found.sort { $0.seq < $1.seq }
        var page = Array(found.prefix(query.limit))
        while page.count < found.count,
            let through = page.map(\.through).max(), found[page.count].seq <= through
        {
            page.append(found[page.count])
        }
        return (page, page.count < found.count)
    }

    func sessions(_ surplus: SurplusSessions) -> [SessionRow] {
        var found: [SessionRow] = []
        for case .session(let row) in rows.values
        where row.account == surplus.account && row.endedAt == nil {
            found.append(row)
        }
        found.sort { ($0.rotatedAt, $0.id) < ($1.rotatedAt, $1.id) }
        return found.dropLast(surplus.kept)
    }

    mutating func sweep(_ horizon: SweepHorizon) -> Int {
        var count = 0
        for (key, row) in rows {
            switch row {
            case .session(let row):
                let hasEnded = row.endedAt.map { $0 < horizon.sessions } ?? false
                guard hasEnded || row.expiresAt < horizon.sessions else { continue }
                rows[key] = nil
            case .hold(let row):
                guard row.state != .open, row.expiresAt < horizon.holds else { continue }
                rows[key] = nil
            case .operation(var row):
                guard case .done(let answer) = row.state, row.at < horizon.answers else {
                    continue
                }
                row.state = .forgotten
                rows[key] = answer.head == nil ? nil : .operation(row)
            case .record(let row):
                guard let end = row.deletedAt, end < horizon.tombstones else { continue }
                rows[key] = nil
                var feed = FeedRow(account: row.owner)
                if case .feed(let known) = rows[.feed(row.owner)] { feed = known }
                feed.drop(row)
                rows[.feed(row.owner)] = .feed(feed)
            case .result(let row):
                guard row.expiresAt < horizon.results else { continue }
                rows[key] = nil
            case .parts(let row):
                guard row.at < horizon.parts else { continue }
                rows[key] = nil
            default:
                continue
            }
            count += 1
        }
        return count
    }
}

// Few names, so that operations collide.

private func randomAccount(using random: inout SplitMix64) -> Identifier {
    .numbered(.random(in: 1...4, using: &random))
}

private func randomMoment(using random: inout SplitMix64) -> Timestamp {
    .at(.random(in: 0..<20, using: &random))
}

private func randomChange(using random: inout SplitMix64) -> Change {
    switch Int.random(in: 0..<10, using: &random) {
    case 9:
        .rehome(
            Rehoming(
                of: randomAccount(using: &random),
                to: .numbered(5),
                head: .random(in: 0..<9, using: &random)
            )
        )
    case 8:
        .pruneResults(
            of: Bool.random(using: &random) ? randomAccount(using: &random) : nil,
            keeping: .random(in: 0..<4, using: &random)
        )
    case 0: .delete(randomRow(using: &random).key)
    case 1, 2:
        .append(
            .sample(
                of: randomAccount(using: &random),
                .grant,
                1,
                available: 1,
                seq: .random(in: 0..<9, using: &random)
            )
        )
    default: .put(randomRow(using: &random))
    }
}

private func randomRow(using random: inout SplitMix64) -> Row {
    let account = randomAccount(using: &random)
    let amount = Int64.random(in: 0..<100, using: &random)
    switch Int.random(in: 0..<12, using: &random) {
    case 11:
        return .blob(
            BlobRow(
                account: account,
                id: .sample(Int(amount % 5)),
                size: amount,
                type: "image/jpeg",
                width: amount % 2 == 0 ? amount : nil,
                createdAt: randomMoment(using: &random)
            )
        )
    case 9:
        // The time identifies the answer, so that no two answers of an account share one.
        return .result(
            ResultRow(
                key: [UInt8(amount % 20)],
                account: amount % 3 == 0 ? nil : account,
                function: "ask",
                output: [UInt8(amount)],
                madeAt: Timestamp(millisecondsSince1970: amount % 20),
                expiresAt: randomMoment(using: &random)
            )
        )
    case 10:
        return .parts(
            PartsRow(
                run: account,
                first: amount % 5 * 7,
                texts: [UInt8(amount)],
                at: randomMoment(using: &random)
            )
        )
    case 7:
        // The number identifies the record, so that no two records of an owner share one.
        return .record(
            .sample(
                "r\(amount % 25)-\(account)",
                in: amount % 25 % 2 == 0 ? account : nil,
                of: account,
                seq: amount % 25,
                through: amount % 25 + amount / 50,
                deletedAt: amount % 3 == 0 ? randomMoment(using: &random) : nil
            )
        )
    case 8:
        return .feed(
            FeedRow(
                account: account,
                records: amount,
                tombstones: amount % 5,
                bytes: amount * 9,
                horizon: amount % 7,
                threads: amount % 11
            )
        )
    case 0: return .account(.sample(account, seq: amount))
    case 1: return .balance(.sample(account, available: amount))
    case 2:
        return .device(
            DeviceRow(
                id: "device-\(amount % 3)",
                secretHash: [UInt8(amount)],
                account: account,
                createdAt: randomMoment(using: &random),
                era: amount % 4
            )
        )
    case 3:
        return .session(
            .sample(
                account,
                of: .numbered(UInt64(amount % 2) + 1),
                rotatedAt: randomMoment(using: &random),
                expiresAt: randomMoment(using: &random),
                endedAt: Bool.random(using: &random) ? randomMoment(using: &random) : nil
            )
        )
    case 4:
        return .quota(
            QuotaRow(
                account: account,
                name: "quota-\(amount % 2)",
                day: CalendarDay(containing: .at(0), in: .gmt),
                used: amount,
                resetsAt: randomMoment(using: &random),
                seq: amount
            )
        )
    case 5:
        let states: [HoldRow.State] = [.open, .captured(amount), .released, .expired]
        return .hold(
            .sample(
                account,
                amount: amount,
                expiresAt: randomMoment(using: &random),
                state: states[Int(amount) % 4]
            )
        )
    default:
        let states: [OperationRow.State] = [
            .running(hold: nil), .running(hold: account), .forgotten,
            .done(StoredAnswer(status: 200, body: [UInt8(amount)], head: nil)),
            .done(StoredAnswer(status: 200, body: [], head: amount)),
            .pushed(head: amount, refusal: amount % 2 == 0 ? nil : [UInt8(amount)]),
        ]
        return .operation(
            .sample(
                account,
                "key-\(amount % 3)",
                states[Int(amount) % 6],
                at: randomMoment(using: &random)
            )
        )
    }
}
