import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import SanguineAuthority

/// The files of function calls: refusals, holds, and the input of functions.
@Suite("Attachments of calls", .bounded)
struct AttachmentTests {
    private let world: SyncWorld
    private let identity: Identity

    init() async throws {
        world = try await SyncWorld()
        identity = Identity(account: world.account, session: .numbered(1))
    }

    private func runner(
        _ change: (inout FunctionRules) -> Void = { _ in },
        gate: WatchedState<Bool>? = nil,
        limits: CallRunner.Limits = CallRunner.Limits(running: 8)
    ) -> (CallRunner, Viewer) {
        var rules = FunctionRules(
            price: .usage(perMillionInput: 100_000, perMillionOutput: 0, atLeast: 0),
            attachments: AttachmentRules(count: 2, bytes: 5_000, tokens: 70)
        )
        change(&rules)
        let viewer = Viewer(rules: rules, gate: gate)
        let runner = CallRunner(
            authority: world.authority,
            functions: { [viewer] },
            limits: limits,
            expiryInterval: .seconds(1),
            delay: ContinuousClock()
        )
        return (runner, viewer)
    }

    private func upload(_ sample: SampleFile, filler: Int = 9) async throws -> BlobFacts {
        try await world.authority.addBlob(sample.bytes(filler: filler), to: world.account).facts
    }

    private func request(_ attachments: [String]?) -> FunctionRequest<JSONValue> {
        FunctionRequest(input: ["text": "What is it?"], attachments: attachments)
    }

    private func call(
        _ runner: CallRunner,
        _ attachments: [String]?,
        key: String = UUID().uuidString
    ) async throws(Problem) -> (body: JSONValue, origin: CallReply.Origin) {
        let submission = Submission(key, request(attachments))
        let reply = try await runner.call("view", identity, submission)
        guard case .answer(let answer, let origin) = reply,
            let body = try? JSONDecoder().decode(JSONValue.self, from: Data(answer.stored.body))
        else { throw Problem(.internalFault, "The answer is not in one piece.") }
        return (body, origin)
    }

    private func refusal(_ runner: CallRunner, _ attachments: [String]) async -> Problem? {
        await problem { () async throws(Problem) in try await call(runner, attachments) }
    }

    @Test func `a function receives the files and can read each of them`() async throws {
        let (runner, viewer) = runner()
        let (jpeg, png) = (try await upload(.jpeg), try await upload(.png))
        let answer = try await call(runner, [png.id, jpeg.id])

        #expect(viewer.seen == [[png, jpeg]])
        #expect(answer.body["output"] == .string("\(png.size) \(jpeg.size)"))
        #expect(viewer.refusedOthers == 1)
    }

    @Test func `the hold and the quote include the files`() async throws {
        let (runner, viewer) = runner()
        let (jpeg, png) = (try await upload(.jpeg), try await upload(.png))
        let none = try await runner.quote("view", identity, .success(request(nil)))
        let two = try await runner.quote("view", identity, .success(request([jpeg.id, png.id])))
        #expect(two.hold == none.hold + 14 && two.estimate == none.estimate + 14)

        let answer = try await call(runner, [jpeg.id, png.id])
        #expect(answer.body["charged"] == .integer(two.hold))
        #expect(viewer.seen.count == 3)
        let last = try await world.storage.transfers(of: world.account, before: nil, limit: 3)
        #expect(last.map(\.transfer).contains { $0.kind == .hold && $0.amount == two.hold })
        #expect(try await world.authority.verifyLedger().differences.isEmpty)
    }

    @Test func `functions without files, and those with public answers, refuse files`()
        async throws
    {
        let jpeg = try await upload(.jpeg)
        let (none, _) = runner { $0.attachments = nil }
        let refused = await refusal(none, [jpeg.id])
        #expect(refused?.code == .invalidContent)
        #expect(refused?.detail == "Leave 'attachments' out: the function takes none.")
        let (open, _) = runner { $0.cache = .forever.public(sharing: "text") }
        let shared = await refusal(open, [jpeg.id])
        #expect(shared?.code == .invalidContent)
        #expect(shared?.detail.contains("public") == true)
        #expect(try await call(open, []).body["output"] == "")
    }

    @Test func `each refusal names the file and the rule`() async throws {
        let (runner, viewer) = runner()
        let (jpeg, png) = (try await upload(.jpeg), try await upload(.png))
        let film = try await upload(.mp4)
        let large = try await upload(.png, filler: 4_600)
        let stranger = try await world.stranger()
        let webp = SampleFile.webp.bytes()
        let others = try await world.authority.addBlob(webp, to: stranger).facts
        let missing = BlobID(of: [9]).description
        let cases: [([String], [String])] = [
            ([jpeg.id, png.id, film.id], ["at most 2", "not 3"]),
            ([jpeg.id, jpeg.id], [jpeg.id, "listed twice"]),
            (["../keys.json"], ["../keys.json", "no such file"]),
            ([jpeg.id, missing], [missing, "no such file"]),
            ([others.id], [others.id, "no such file"]),
            ([jpeg.id, film.id], [film.id, "video/mp4", "image/jpeg, image/png, image/webp"]),
            ([large.id, jpeg.id], [jpeg.id, "\(jpeg.size) bytes", "5000 bytes in all"]),
        ]
        for (attachments, words) in cases {
            let problem = try #require(await refusal(runner, attachments), "\(words)")
            #expect(problem.code == .invalidContent, "\(words)")
            for word in words { #expect(problem.detail.contains(word), "\(problem.detail)") }
            let quote = await SanguineAuthorityTests.problem { () async throws(Problem) in
                try await runner.quote("view", identity, .success(request(attachments)))
            }
            #expect(quote == problem)
        }
        #expect(viewer.seen.isEmpty)
        #expect(try await world.authority.balance(world.account).held == 0)
    }

    @Test func `a function that needs files refuses fewer before anything is held`() async throws {
        let (runner, viewer) = runner { $0.attachments?.minimum = 2 }
        let jpeg = try await upload(.jpeg)
        for files in [[], [jpeg.id]] {
            let refused = await refusal(runner, files)
            #expect(refused?.code == .invalidContent)
            #expect(refused?.detail.contains("at least 2 attachments") == true)
            let quote = await SanguineAuthorityTests.problem { () async throws(Problem) in
                try await runner.quote("view", identity, .success(request(files)))
            }
            #expect(quote == refused)
        }
        #expect(viewer.seen.isEmpty)
        let png = try await upload(.png)
        _ = try await call(runner, [jpeg.id, png.id])
        #expect(viewer.seen.count == 1)
    }

    @Test func `a call that is done is recognized even if its files are gone`()
        async throws
    {
        let (runner, viewer) = runner()
        let jpeg = try await upload(.jpeg)
        let first = try await call(runner, [jpeg.id], key: "k")
        let id = try #require(BlobID(jpeg.id))
        let remove = Command(keys: []) { _ throws(Problem) in
            Decision((), changes: [.delete(.blob(identity.account, id))])
        }
        try await world.storage.perform(remove).get()

        let again = try await call(runner, [jpeg.id], key: "k")
        #expect(again.origin == .replayed && again.body == first.body)
        #expect(await refusal(runner, [jpeg.id])?.detail.contains(jpeg.id) == true)
        #expect(viewer.seen.count == 1)
        let other = await problem { () async throws(Problem) in
            try await call(runner, ["nonsense"], key: "k")
        }
        #expect(other?.code == .idempotencyMismatch)
    }

    @Test func `an answer is cached by its files and their order`() async throws {
        let (runner, viewer) = runner { $0.cache = .forever }
        let (jpeg, png) = (try await upload(.jpeg), try await upload(.png))
        for attachments in [[jpeg.id], [jpeg.id], [png.id], [], [jpeg.id, png.id], [jpeg.id]] {
            _ = try await call(runner, attachments)
        }
        #expect(try await call(runner, [png.id, jpeg.id]).origin == .run(isKept: true))
        guard case .cache = try await call(runner, [png.id]).origin else {
            Issue.record("The answer was not cached.")
            return
        }
        #expect(viewer.runs == 5)
    }

    @Test func `the same question about another file is a different call`() async throws {
        let (runner, _) = runner { $0.limits.repeatsPerMinute = 1 }
        let (jpeg, png) = (try await upload(.jpeg), try await upload(.png))
        _ = try await call(runner, [jpeg.id])
        _ = try await call(runner, [png.id])
        #expect(await refusal(runner, [jpeg.id])?.code == .rateLimited)
    }

    @Test func `the files of a call are limited by the server, regardless of the declared limit`()
        async throws
    {
        let (small, _) = runner(limits: CallRunner.Limits(running: 8, fileBytes: 1_000))
        let png = try await upload(.png, filler: 500)
        #expect(await refusal(small, [png.id])?.detail.contains("500 bytes in all") == true)
    }

    @Test func `all calls share a limit of files, beyond which a call must be retried`()
        async throws
    {
        let jpeg = try await upload(.jpeg)
        let limits = CallRunner.Limits(running: 8, fileBytes: 3 * jpeg.size)
        let gate = WatchedState(false)
        let (runner, viewer) = runner(gate: gate, limits: limits)
        let first = Task { try await call(runner, [jpeg.id]) }
        try await eventually("the first call runs") { viewer.runs == 1 }

        let refused = await problem { () async throws(Problem) in
            try await call(runner, [jpeg.id], key: "again")
        }
        #expect(refused?.code == .overloaded && refused?.retryAfter == 1)
        let without = Task { try await call(runner, []) }
        try await eventually("a call without files runs too") { viewer.runs == 2 }
        gate.withLock { $0 = true }
        _ = try await first.finished()
        _ = try await without.finished()
        #expect(try await call(runner, [jpeg.id], key: "again").origin == .run(isKept: false))
    }
}

/// A function that records the files of its calls.
private final class Viewer: MeteredFunction {
    let name = "view"
    let rules: FunctionRules
    let inputs = ["text": "string"]

    private struct State {
        var seen: [[BlobFacts]] = []
        var runs = 0
        var refused = 0
    }

    private let state = Mutex(State())

    /// The gate that each call waits for; `nil` for none.
    private let gate: WatchedState<Bool>?

    init(rules: FunctionRules, gate: WatchedState<Bool>?) {
        self.rules = rules
        self.gate = gate
    }

    /// The files of each prepared call.
    var seen: [[BlobFacts]] { state.withLock { $0.seen } }

    var runs: Int { state.withLock { $0.runs } }

    /// The number of refused reads of files that do not belong to the call.
    var refusedOthers: Int { state.withLock { $0.refused } }

    func prepare(_ input: FunctionInput) throws(Problem) -> PreparedCall {
        state.withLock { $0.seen.append(input.attachments) }
        let tokens = rules.attachments?.tokens ?? 0
        let pricing = Pricing(price: rules.price, maxOutputTokens: 5, attachmentTokens: tokens)
        let files = input.attachments
        let hold = pricing.most(promptBytes: 10, attachments: files.count)
        return PreparedCall(
            input: input.value,
            hold: hold,
            guess: hold,
            life: .seconds(60),
            isSent: true,
            chargeWhenCut: {
                pricing.charge($0, promptBytes: 10, attachments: files.count)
            }
        ) { [self] context async throws(Problem) in
            state.withLock { $0.runs += 1 }
            try? await gate?.wait(for: "the open gate") { $0 }
            var sizes: [String] = []
            for file in files {
                sizes.append(String(try await context.attachment(file).count))
            }
            do throws(Problem) {
                var other = BlobFacts(id: BlobID(of: [1]).description, size: 1, type: "a/b")
                other.id = files.first?.id ?? other.id
                _ = try await context.attachment(other)
            } catch {
                state.withLock { $0.refused += 1 }
            }
            return PreparedCall.Outcome(
                output: .string(sizes.joined(separator: " ")),
                charge: hold
            )
        }
    }
}
