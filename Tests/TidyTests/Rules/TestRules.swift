/// Rules about tests.
extension Rule {
    static let tests = [
        Rule(
            "test-name",
            remedy: "Name the test by a sentence: func `a full outbox refuses a mutation`().",
            scope: .tests,
            part: \.code,
            pattern: #"""
                @Test\b(?:\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\))?\#
                (?:\s+|@\w+(?:\([^()]*\))?\#
                |\b(?:private|fileprivate|internal|public|static|nonisolated)\b)*\#
                \bfunc\s+(?!`x+ [x ]*`)
                """#,
            broken: samples(
                in: "Tests/A/A.swift",
                "@Test func testSetGet() {}",
                "@Test func `sets`() {}",
                "@Test(arguments: [(1, max(2, 3))]) func sets(a: (Int, Int)) {}",
                "@Test(\n    .tags(.a),\n    arguments: 1...20\n)\n@MainActor\nfunc a() {}"
            ),
            clean: samples(
                in: "Tests/A/A.swift",
                "@Test func `what is set is got`() {}",
                "@Test(arguments: [f(1)]) func `it's \"set\", once`(a: Int) {}",
                "func helper() {}",
                "// @Test func no() {}"
            )
        ),
        Rule(
            "sleeping-test",
            remedy: "Pass a manual clock in, or wait for the event itself.",
            scope: .tests,
            part: \.code,
            pattern:
                #"\b(?:Task|Thread)\.sleep\b|(?<![\w.])(?:u|nano)?sleep\(|Clock\(\)\.sleep\b"#,
            broken: samples(
                in: "Tests/A/A.swift",
                "try await Task.sleep(for: .seconds(1))",
                "Thread.sleep(forTimeInterval: 1)",
                "usleep(10)",
                "try await ContinuousClock().sleep(for: .seconds(1))",
                "sleep(1)"
            ),
            clean: samples(
                in: "Tests/A/A.swift",
                "try await clock.sleep(for: .seconds(1))",
                "let a = \"sleep(1)\""
            )
        ),
        Rule(
            "asserts-nothing",
            remedy: "Expect something that could be otherwise.",
            scope: .tests,
            broken: samples(
                in: "Tests/A/A.swift",
                "@Test func `it runs`() { run() }",
                "@Test func `it runs`() { #expect(true) }",
                "@Test func `it runs`() { #expect(Bool(true)) }"
            ),
            clean: samples(
                in: "Tests/A/A.swift",
                "@Test func `it runs`() { #expect(run() == 1) }",
                "@Test func `it runs`() throws { try #require(run()) }",
                "@Test func `it runs`() { Contract().expectAll() }",
                "func helper() {}"
            )
        ) { file in
            let empty = try file.lines(
                matching: #"#(?:expect|require)\((?:true|Bool\(true\))\s*\)"#,
                in: \.code
            )
            let tests = try file.lines(matching: #"@Test\b"#, in: \.code)
            let assertions = try file.lines(
                matching: #"""
                    #expect\b|#require\b|\bIssue\.record\(|\bconfirmation\(\#
                    |\b(?:expect|require|assert|verify|check)\w*\(
                    """#,
                in: \.code
            )
            return assertions.isEmpty ? empty + tests.prefix(1) : empty
        },
    ]
}
