/// Rules about what the code does.
extension Rule {
    static let code = [
        Rule(
            "hidden-clock",
            remedy: "Take a WallClock, an `any Clock<Duration>` or a moment as a parameter.",
            scope: .sources,
            part: \.code,
            pattern: #"""
                \bDate\(\)|\bDate\(timeIntervalSinceNow\b|\bTask\.sleep\b(?![^\n]*\bclock:)\#
                |\b[A-Z]\w*(?:\(\))?\.now\b|(?<![\w)\]}?!])\.now\b\#
                |\b(?:gettimeofday|clock_gettime|CFAbsoluteTimeGetCurrent|systemUptime)\b
                """#,
            broken: samples(
                in: "Sources/A/A.swift",
                "let a = Date()",
                "let a = Date(timeIntervalSinceNow: 1)",
                "try await Task.sleep(for: .seconds(1))",
                "let a = ContinuousClock.now",
                "let a = ContinuousClock().now",
                "let a: Date = .now",
                "use(NIODeadline.now())",
                "let a = ProcessInfo.processInfo.systemUptime"
            ),
            clean: samples(
                in: "Sources/A/A.swift",
                "let a = clock.now",
                "let a = self.clock.now() + b",
                "try await Task.sleep(for: delay, clock: clock)",
                "init(clock: any Clock<Duration> = ContinuousClock()) {}",
                "let a = Date(timeIntervalSince1970: 0)  // Not Date().",
                "let a = \"Date()\""
            )
        ),
        Rule(
            "uncontrolled-turn",
            remedy: "Call giveTurn(): no simulation can order what follows Task.yield().",
            scope: .sources,
            part: \.code,
            pattern: #"\bTask\.yield\b"#,
            broken: samples(in: "Sources/A/A.swift", "await Task.yield()"),
            clean: samples(
                in: "Sources/A/A.swift",
                "await giveTurn()",
                "continuation.yield(a)",
                "let a = 1  // Not Task.yield()."
            )
        ),
        Rule(
            "silent-crash",
            remedy:
                "Throw, unwrap with guard, or explain in a preconditionFailure why it cannot fail.",
            scope: .sources,
            part: \.code,
            pattern: #"(?<=[\w)\]}>"`?])!(?!=)|\bfatalError\(|\bpreconditionFailure\(\s*\)"#,
            broken: samples(
                in: "Sources/A/A.swift",
                "let a = try! b()",
                "let a = b as! C",
                "let a = b!",
                "let a = b()!.c",
                "let a = b[0]!",
                "let a = URL(string: \"c\")!",
                "var a: String!",
                "fatalError()",
                "fatalError(\"a\")",
                "preconditionFailure()",
                "let a = \"\\(b!)\""
            ),
            clean: samples(
                in: "Sources/A/A.swift",
                "let a = !b && c != d && e !== f",
                "guard !isEmpty else { return }",
                "preconditionFailure(\"Nothing is sent twice.\")",
                "let a = \"No!\"  // No!",
                "let a = try? b()"
            )
        ),
        Rule(
            "unexplained-escape",
            remedy: "Explain in a comment on the line above why it is safe, or avoid it.",
            scope: .sourcesAndBenchmarks,
            broken: samples(
                in: "Sources/A/A.swift",
                "final class A: @unchecked Sendable {}",
                "nonisolated(unsafe) var a = 1",
                "@preconcurrency import B",
                "let a = unsafeBitCast(b, to: C.self)",
                "let b = 1  // A comment, but behind code.\nextension A: @unchecked Sendable {}"
            ),
            clean: samples(
                in: "Sources/A/A.swift",
                "// All state is behind `lock`.\nfinal class A: @unchecked Sendable {}",
                "final class A: Sendable {}  // Not @unchecked Sendable."
            )
        ) { file in
            let pattern = #"""
                @unchecked\s+Sendable|\bnonisolated\(unsafe\)|@preconcurrency\b\#
                |\bunsafeBitCast\(
                """#
            return try file.lines(matching: pattern, in: \.code)
                .filter { !file.hasComment(above: $0) }
        },
        Rule(
            "unexplained-silence",
            remedy:
                "Explain in a comment on the line above why the tool is wrong, or follow it.",
            scope: .swift,
            broken: samples(
                in: "Sources/A/A.swift",
                "// swift-format-ignore\nlet a = 1",
                "let b = 2\n// swiftlint:disable all"
            ),
            clean: samples(
                in: "Sources/A/A.swift",
                "// The columns are the table of RFC 4648.\n// swift-format-ignore\nlet a = 1"
            )
        ) { file in
            try file.lines(matching: "swift-format-ignore|swiftlint:", in: \.comments)
                .filter { !file.hasComment(above: $0) }
        },
        Rule(
            "stray-print",
            remedy: "Log with swift-log, or return the text; only the command prints.",
            scope: .libraries,
            part: \.code,
            pattern: #"(?<![\w.`])(?<!func )(?:print|debugPrint|dump|NSLog|puts|fputs)\("#,
            broken: samples(
                in: "Sources/Sanguine/A.swift",
                "print(a)",
                "if a { dump(b) }",
                "NSLog(\"a\")"
            ),
            clean: [
                SourceFile(
                    "Sources/Sanguine/A.swift",
                    "fingerprint(a)\nreport.print(b)\n// print(c)\n"
                ),
                SourceFile("Sources/SanguineCommand/A.swift", "print(a)\n"),
            ]
        ),
        Rule(
            "sql-outside-driver",
            remedy: "Move the statement to a driver, or to the client's Store folder.",
            scope: Scope { path in
                let homes = ["SanguineSQLite/", "SanguinePostgres/", "Sanguine/Store/"]
                return Scope.sources.contains(path)
                    && !homes.contains { path.hasPrefix("Sources/\($0)") }
            },
            part: \.literals,
            pattern: #"""
                \bSELECT\s|\bINSERT (?:OR \w+ )?INTO\b|\bUPDATE \w+ SET\b|\bDELETE FROM\b\#
                |\b(?:CREATE|ALTER|DROP) (?:UNIQUE )?(?:TABLE|INDEX)\b\#
                |\bPRAGMA\s|\bBEGIN IMMEDIATE\b
                """#,
            broken: samples(
                in: "Sources/SanguineServer/A.swift",
                "let a = \"SELECT * FROM b\"",
                "let a = \"\"\"\n    INSERT INTO b\n    \"\"\"",
                "let a = #\"PRAGMA journal_mode\"#"
            ),
            clean: [
                SourceFile(
                    "Sources/SanguineServer/A.swift",
                    "// SELECT a\nlet a = \"Select one.\"\n"
                ),
                SourceFile("Sources/SanguineSQLite/A.swift", "let a = \"SELECT b FROM c\"\n"),
                SourceFile("Sources/Sanguine/Store/A.swift", "let a = \"SELECT b FROM c\"\n"),
            ]
        ),
    ]

    /// Returns samples of one file each, all at the same path.
    static func samples(in path: String, _ texts: String...) -> [SourceFile] {
        texts.map { SourceFile(path, $0 + "\n") }
    }
}
