import Foundation
import HostileUpstream
import NIOHTTP1
import SanguineModel
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// The caller's result and charge for each fault of an upstream.
    @Suite("Upstream and ledger", .bounded(.seconds(120)))
    struct UpstreamLedgerTests {
        private typealias Fault = HostileUpstream.Fault

        /// A fault of an upstream and its expected effects on the caller.
        struct Misdeed: Sendable, CustomTestStringConvertible {
            /// The end of a call.
            ///
            /// Without a code, it is an answer.
            struct End: Sendable {
                var status = 200
                var code: ProblemCode?
                /// The charged tokens.
                var charged: ClosedRange<Int64>
                /// The seconds to wait before the next call to the upstream.
                var retryAfter: Int?
            }

            let fault: HostileUpstream.Fault
            let plain: End
            let streamed: End
            var testDescription: String { "\(fault)" }

            init(_ fault: HostileUpstream.Fault, plain: End, streamed: End) {
                self.fault = fault
                self.plain = plain
                self.streamed = streamed
            }

            init(_ fault: HostileUpstream.Fault, _ both: End) {
                self.init(fault, plain: both, streamed: both)
            }
        }

        private static let grant = 1_000
        /// The maximum cost of an answer, which is held.
        private static let hold: Int64 = 60
        private static let question = "id=a words=5"
        private static let words = HostileAnswer(to: question)

        private static func charged(_ amount: Int64) -> Misdeed.End {
            Misdeed.End(charged: amount...amount)
        }

        private static func failed(
            _ charged: Int64 = 0,
            retryAfter: Int? = nil
        ) -> Misdeed.End {
            Misdeed.End(
                status: 502,
                code: .upstreamFailed,
                charged: charged...charged,
                retryAfter: retryAfter
            )
        }

        private static func late(_ charged: ClosedRange<Int64> = 0...0) -> Misdeed.End {
            Misdeed.End(status: 504, code: .upstreamTimeout, charged: charged)
        }

        /// Each word costs one token, and the prompt costs nothing.
        ///
        /// Words are four bytes long, which the server counts as a token if usage is missing or
        /// invalid.
        static let misdeeds: [Misdeed] = [
            Misdeed(.none, charged(5)),
            Misdeed(
                .refuses(status: 400),
                Misdeed.End(status: 422, code: .upstreamRefused, charged: 0...0)
            ),
            Misdeed(.refuses(status: 401), failed()),
            Misdeed(.refuses(status: 500), failed()),
            Misdeed(.refuses(status: 503), failed()),
            Misdeed(.refuses(status: 429, retryAfter: "7"), failed(retryAfter: 7)),
            Misdeed(.silence, late()),
            Misdeed(.headOnly, late()),
            Misdeed(.garbage, failed()),
            Misdeed(.cut(bytes: 0), failed()),
            Misdeed(.cut(bytes: 500), plain: charged(5), streamed: failed(2)),
            Misdeed(.cut(bytes: 60), failed()),
            Misdeed(.reset(bytes: 0), failed()),
            Misdeed(.reset(bytes: 60), failed()),
            Misdeed(.wrongUsage(.negative), charged(5)),
            Misdeed(.wrongUsage(.huge), charged(5)),
            Misdeed(.wrongUsage(.text), charged(5)),
            Misdeed(.wrongUsage(.excessive), charged(hold)),
            Misdeed(.wrongUsage(.nothing), charged(5)),
            Misdeed(.noUsage, charged(5)),
            Misdeed(.neverEnds, plain: failed(), streamed: late(1...hold)),
            Misdeed(.lineWithoutEnd, failed()),
            Misdeed(.errorInStream(words: 2), plain: failed(), streamed: failed(2)),
            Misdeed(.noDone, charged(5)),
            Misdeed(.hangsAfterDone, charged(5)),
        ]

        @Test(arguments: misdeeds, [false, true])
        func `a call is settled once, according to what the upstream did`(
            misdeed: Misdeed,
            isStreamed: Bool
        ) async throws {
            let fault = misdeed.fault
            let expected = isStreamed ? misdeed.streamed : misdeed.plain
            try await TemporaryFolder.with { folder in
                try await HostileUpstream.with({ _ in fault }) { upstream in
                    let settings = Self.settings(upstream.url)
                    try await LocalServer.with(folder: folder, settings: settings) { server in
                        let guest = try await server.api.guest()
                        let end = try await Self.call(isStreamed, server.api, guest)
                        #expect(end.status == expected.status)
                        #expect(end.code == expected.code)
                        #expect(end.retryAfter == expected.retryAfter)
                        #expect(expected.charged.contains(end.charged), "\(end.charged)")
                        if expected.code == nil { #expect(end.output == Self.words.text) }
                        var balance = try await server.api.balance(of: guest)
                        #expect(balance.available == Int64(Self.grant) - end.charged)
                        #expect(balance.held == 0)
                        #expect(end.head == nil || end.head == balance.head)
                        // A call that failed without a charge runs again under its key.
                        let repeats = end.status >= 500 && end.charged == 0
                        // It does not run during a pause that the upstream requested.
                        if expected.retryAfter == nil {
                            let again = try await Self.call(isStreamed, server.api, guest)
                            #expect(repeats ? again.code == end.code : again == end)
                            #expect(upstream.invoice["a"]?.requests == (repeats ? 2 : 1))
                        }
                        balance = try await server.api.balance(of: guest)
                        let ledger = try await server.api.ledger(of: guest)
                        #expect(ledger.map(\.amount).reduce(0, +) == balance.available)
                        #expect(ledger.contains { $0.kind == .hold && $0.amount == -Self.hold })
                    }
                }
                let verified = try await Tool.run("ledger", "verify", "--data", folder.path)
                #expect(verified.status == 0, "\(verified.output)")
            }
        }

        /// The end of a call as its caller sees it.
        private struct Ended: Hashable {
            var status: Int
            var code: ProblemCode?
            var charged: Int64
            var retryAfter: Int?
            var output: String?
            var head: Int64?
            /// The whole response, byte for byte.
            var text: String

            init(_ json: JSONValue?, status: Int, head: Int64? = nil, text: String) {
                self.status = status
                code = json?["code"]?.string.map { ProblemCode(rawValue: $0) }
                charged = json?["charged"]?.integer ?? 0
                retryAfter = json?["retryAfter"]?.integer.map { Int($0) }
                output = json?["output"]?.string
                self.head = head ?? json?["head"]?.integer
                self.text = text
            }
        }

        private static func call(
            _ isStreamed: Bool,
            _ api: API,
            _ guest: API.Guest
        ) async throws -> Ended {
            guard isStreamed else {
                let answer = try await api.ask(question, key: "a-key", as: guest)
                let json = try answer.decode(JSONValue.self)
                let head = answer.header("Sanguine-Head").flatMap { Int64($0) }
                return Ended(json, status: answer.status, head: head, text: answer.text)
            }
            var seen = SeenStream()
            let request = try api.streamed("ask", question, key: "a-key", as: guest)
            #expect(await api.read(request, into: &seen) == 200)
            #expect(seen.ends == 1)
            let isAnswer = seen.end?["output"] != nil
            let status = isAnswer ? 200 : seen.end?["status"]?.integer.map { Int($0) } ?? 0
            return Ended(seen.end, status: status, text: seen.text)
        }

        private static func settings(_ url: String) -> ServerSettings {
            var settings = ServerSettings()
            settings.upstream.url = url
            settings.upstream.timeout = .milliseconds(500).withPatience
            settings.upstream.streamTimeout = .milliseconds(500).withPatience
            settings.upstream.answerBytes = 100_000
            settings.accounts.grant = grant
            settings.openAI.function = ""
            settings.functions = [
                FunctionSetting(
                    name: "ask",
                    kind: .upstream,
                    price: .usage(perMillionInput: 0, perMillionOutput: 1_000_000, atLeast: 0),
                    maxOutputTokens: Int(hold)
                )
            ]
            return settings
        }
    }
}
