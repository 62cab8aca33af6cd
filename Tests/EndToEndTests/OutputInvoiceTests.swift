import AsyncHTTPClient
import Foundation
import HostileUpstream
import NIOCore
import NIOHTTP1
import SanguineAuthority
import SanguineModel
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// The upstream's invoice and the charges, for every kind of output and every form of report.
    ///
    /// `OUTPUTS=10000` plays more answers, and `SEED=7` plays others.
    @Suite("Invoiced output", .bounded(.seconds(1_800)))
    struct OutputInvoiceTests {
        private static let outputs = environmentNumber("OUTPUTS", or: 200)
        private static let seed: UInt64 = environmentNumber("SEED", or: 53)
        private static let atOnce = 16
        /// Enough that few of them fail often enough to be blocked.
        private static let guests = max(8, outputs / 4)

        @Test func `a charge is within its declared bounds of the upstream's output`()
            async throws
        {
            let (outputs, seed) = (Self.outputs, Self.seed)
            let plans = (0..<outputs).map { OutputPlan($0, seed: seed) }
            try await HostileUpstream.with({ request in
                let number = Int(request.id.drop { $0 != "-" }.dropFirst())
                return number.map { plans[$0].fault } ?? .none
            }) { upstream in
                try await TemporaryFolder.with { folder in
                    let settings = Self.settings(upstream.url)
                    let charges = try await LocalServer.with(folder: folder, settings: settings) {
                        server in
                        try await Self.play(plans, server.api, upstream)
                    }
                    var (charged, billed): (Int64, Int64) = (0, 0)
                    for (plan, charge) in zip(plans, charges) {
                        let bill = upstream.invoice[plan.id] ?? .init()
                        let finding = plan.finding(
                            charged: charge,
                            billed: Int64(bill.completionTokens)
                        )
                        #expect(finding == nil, "seed \(seed)")
                        #expect(bill.requests == 1 || charge == 0, "seed \(seed), \(plan)")
                        charged += charge
                        billed += Int64(bill.completionTokens)
                    }
                    print("outputs (seed \(seed)): charged \(charged) of \(billed) invoiced")
                    let verified = try await Tool.run("ledger", "verify", "--data", folder.path)
                    #expect(verified.status == 0, "seed \(seed): \(verified.output)")
                }
            }
        }

        @Test func `charges for content only, or for a token per byte, are detected`() {
            let plans = (0..<1_000).map { OutputPlan($0, seed: 1) }
            let cut = plans.filter { $0.end == .cancel && $0.words > 8 && $0.place > 8 }
            let silent = cut.filter { $0.kind == .tools || $0.kind == .reasoning }
            #expect(silent.count > 10)
            for plan in silent {
                #expect(plan.finding(charged: 0, billed: Int64(plan.place)) != nil)
            }
            let long = plans.filter { $0.report == .none && $0.size > 2 && $0.words > 8 }
                .filter { $0.words * $0.size <= OutputPlan.longest }
            #expect(!long.isEmpty)
            for plan in long {
                let bytes = Int64(plan.words * plan.size)
                #expect(plan.finding(charged: bytes, billed: Int64(plan.words)) != nil)
            }
        }

        /// Plays all answers.
        ///
        /// A call that the server refuses because so many have failed is sent again.
        ///
        /// - Returns: The charge of each answer.
        private static func play(
            _ plans: [OutputPlan],
            _ api: API,
            _ upstream: HostileUpstream
        ) async throws -> [Int64] {
            let guests = try await concurrently(guests) { number in
                try await api.guest("a-device-of-guest-\(number)")
            }
            let charges = try await concurrently(plans.count, atOnce: atOnce) { number in
                let plan = plans[number]
                var charge: Int64 = 0
                try await eventually(
                    "the upstream receives \(plan.id)",
                    within: TestingLimits.longestWait
                ) {
                    charge = try await play(plan, api, guests[number % Self.guests])
                    return upstream.invoice[plan.id] != nil
                }
                return charge
            }
            for (number, guest) in guests.enumerated() {
                let own = charges.enumerated().filter { $0.offset % Self.guests == number }
                let balance = try await api.balance(of: guest)
                #expect(balance.held == 0)
                #expect(balance.available == grant - own.reduce(0) { $0 + $1.element })
            }
            return charges
        }

        private static func play(
            _ plan: OutputPlan,
            _ api: API,
            _ guest: API.Guest
        ) async throws -> Int64 {
            if plan.isPassed {
                try await pass(plan, api, guest)
            } else if plan.isStreamed {
                var seen = SeenStream()
                let request = try api.streamed(
                    plan.function,
                    plan.question,
                    key: plan.id,
                    as: guest
                )
                await api.read(request, into: &seen)
            } else {
                _ = try await api.ask(plan.question, key: plan.id, as: guest)
            }
            let end = try await api.end {
                try await api.send(.GET, "/v1/calls/\(plan.id)", token: guest.token)
            }
            return try end.decode(JSONValue.self)["charged"]?.integer ?? 0
        }

        /// Makes a call through the OpenAI routes, and cancels it once everything written has been
        /// read.
        private static func pass(
            _ plan: OutputPlan,
            _ api: API,
            _ guest: API.Guest
        ) async throws {
            let body: JSONValue = [
                "stream": .bool(plan.isStreamed),
                "messages": .array([["role": "user", "content": .string(plan.question)]]),
            ]
            var request = HTTPClientRequest(url: api.base + "/v1/chat/completions")
            request.method = .POST
            request.headers.add(name: "Authorization", value: "Bearer \(guest.token)")
            request.headers.add(name: "Idempotency-Key", value: plan.id)
            request.headers.add(name: "Content-Type", value: "application/json")
            request.body = .bytes(ByteBuffer(bytes: body.canonical))
            let response = try await api.http.execute(request, timeout: .patient(60))
            // The first chunk contains the role.
            var awaited = plan.end == .cancel ? plan.place + 1 : .max
            var chunks = 0
            var last: UInt8 = 0
            for try await part in response.body {  // tidy: allow unbounded-wait: it has a time-out.
                for byte in part.readableBytesView {
                    if byte == 0x0A, last == 0x0A { chunks += 1 }
                    last = byte
                }
                guard chunks >= awaited else { continue }
                awaited = .max
                _ = try await api.send(.DELETE, "/v1/calls/\(plan.id)", token: guest.token)
            }
        }

        private static let grant: Int64 = 100_000_000

        private static func settings(_ url: String) -> ServerSettings {
            var settings = ServerSettings()
            settings.limits.guestsPerHour = 0
            settings.upstream.url = url
            settings.accounts.grant = Int(grant)
            settings.openAI.function = "ask"
            settings.functions = ["ask", "late"].map { name in
                var setting = FunctionSetting(
                    name: name,
                    kind: .upstream,
                    price: .usage(perMillionInput: 0, perMillionOutput: 1_000_000, atLeast: 0),
                    maxOutputTokens: OutputPlan.longest
                )
                if name == "late" { setting.rules.limits.timeout = .seconds(1).withPatience }
                return setting
            }
            return settings
        }
    }
}
