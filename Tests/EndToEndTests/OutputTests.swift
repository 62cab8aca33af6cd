import Foundation
import SanguineModel
import TestSupport
import Testing

#if os(Linux)

extension EndToEnd {
    /// Commands whose output cannot be written.
    @Suite("Unwritable output", .bounded)
    struct OutputTests {
        /// Commands that print without a server.
        private static let commands: [[String]] = [
            ["matrix"], ["matrix", "--json"], ["config"], ["config", "--json"],
            ["config", "--reference"], ["--help"], ["--version"], ["note", "--help"],
            ["demo", "--latency-ms", "50"], ["stand-in", "--port", "0"],
        ]

        private static func expect(
            _ ended: Redirected.Ended,
            _ sink: Redirected.Sink,
            _ command: [String]
        ) {
            #expect(ended.status == 1, "\(command) \(sink): \(ended.errors)")
            switch sink {
            case .closedPipe: #expect(ended.errors.isEmpty, "\(command)")
            case .fullDisk, .nothing:
                #expect(
                    ended.errors.hasPrefix("Error: Standard output cannot be written ("),
                    "\(command) \(sink): \(ended.errors)"
                )
            }
        }

        @Test(arguments: commands, Redirected.Sink.allCases)
        func `a command that cannot print fails`(
            command: [String],
            sink: Redirected.Sink
        ) async throws {
            Self.expect(try await Redirected.run(command, into: sink), sink, command)
        }

        @Test(arguments: Redirected.Sink.allCases)
        func `a client command that cannot print fails`(sink: Redirected.Sink) async throws {
            try await TemporaryFolder.with { folder in
                let phone = ["--folder", folder.appending(path: "phone").path, "--offline"]
                for command in [["add", "Milk"], ["list"], ["list", "--json"]] {
                    let all = ["note"] + command + phone
                    Self.expect(try await Redirected.run(all, into: sink), sink, command)
                }
                // The commands took effect even though they could not print.
                let listed = try await Tool.with(["note", "list"] + phone) { try await $0.ended() }
                #expect(listed.output.hasSuffix("  … Milk\n"))
            }
        }

        @Test(arguments: Redirected.Sink.allCases)
        func `server commands that cannot print fail`(
            sink: Redirected.Sink
        ) async throws {
            try await TemporaryFolder.with { folder in
                let data = folder.appending(path: "data")
                let phone = folder.appending(path: "phone").path
                try await ServeProcess.with(data: data) { server in
                    let options = [
                        "--folder", phone, "--server", "http://127.0.0.1:\(server.port)",
                    ]
                    for command in [["balance"], ["balance", "--json"], ["quota"]] {
                        let ended = try await Redirected.run(command + options, into: sink)
                        Self.expect(ended, sink, command)
                    }
                    let verify = ["ledger", "verify", "--data", data.path]
                    Self.expect(try await Redirected.run(verify, into: sink), sink, verify)
                    #expect(try await server.stop().status == 0)
                }
                let serve = [
                    "serve", "--data", data.path, "--port", "0", "--admin-port", "0",
                    "--log-level", "error",
                ]
                let ended = try await Redirected.run(serve, into: sink)
                #expect(ended.status == 1, "\(ended.errors)")
                #expect(
                    ended.errors.contains("Standard output cannot be written")
                        == (sink != .closedPipe)
                )
            }
        }
    }
}

#endif
