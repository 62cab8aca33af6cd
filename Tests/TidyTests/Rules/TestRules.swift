/// Rules about tests.
extension Rule {
    static let tests = [
        Rule(
            "test-name",
            remedy: "Name the test with a sentence: func `a full outbox refuses a mutation`().",
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
                "@Test func `a value that was set is read back`() {}",
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
            "busy-wait",
            remedy: "Wait for the event, or with eventually(_:), which pauses and has a bound.",
            scope: .tests,
            part: \.code,
            pattern:
                #"\bTask\.yield\b|\bsched_yield\b|\bwhile\b(?![^\n]*\bawait\b)[^\n{]*\{\s*\}"#,
            broken: samples(
                in: "Tests/A/A.swift",
                "while !isDone { await Task.yield() }",
                "for _ in 0..<10 { await Task.yield() }",
                "while !isDone {}",
                "while !isDone {\n}"
            ),
            clean: samples(
                in: "Tests/A/A.swift",
                "try await eventually(\"it is done\") { isDone }",
                "while let next = rest.first { rest.removeFirst() }",
                "await other.yield()"
            )
        ),
        Rule(
            "unbounded-wait",
            remedy: """
                Wait with a bound whose error names the awaited event: eventually(_:), \
                WatchedState.wait(for:), first(_:) of a sequence, finished() of a task, or \
                wait(timeout:).
                """,
            scope: .testsButSamples,
            part: \.code,
            pattern: #"""
                \bwhile\s+!?Task\.isCancelled\b\#
                |(?<!\bTask \{\s{0,60})(?<!\bTask \{ \[[^\]\n]{0,60}\] in\s{0,60})\#
                \bfor\s+(?:try\s+)?await\b(?![^\n]*\bin group\b)\#
                |\bawait\s+\w+(?:\[\w+\])?\.(?:value|result)\b(?!\s*[({])\#
                |\bwith(?:Checked|Unsafe)(?:Throwing)?Continuation\b\#
                |(?<!\bawait [\w.]{1,60})\.wait\(\s*\)|\bwaitUntilExit\(
                """#,
            broken: samples(
                in: "Tests/A/A.swift",
                "while !Task.isCancelled, !isDone { await step() }",
                "for await state in states where state.isDone { break }",
                "for try await part in body { read(part) }",
                "let value = try await task.value",
                "let result = await tasks[0].result",
                "await withCheckedContinuation { waiting = $0 }",
                "semaphore.wait()",
                "process.waitUntilExit()"
            ),
            clean: samples(
                in: "Tests/A/A.swift",
                "try await states.first(\"the end\") { $0.isDone }",
                "let reader = Task { for await _ in states {} }",
                "let reader = Task { [log] in\n    for await state in states { log.add(state) }\n}",
                "let value = try await task.finished()",
                "let value = try await client.value(of: query)",
                "_ = semaphore.wait(timeout: .now() + 10)",
                "await gate.wait()",
                "for try await part in group { parts.append(part) }"
            )
        ),
        Rule(
            "skipped-test",
            remedy: """
                Mark a test that needs a program with .requires(_:), so that `make check` fails \
                without it; for another condition, explain why it may be skipped everywhere.
                """,
            scope: .tests,
            part: \.code,
            pattern: #"\.(?:enabled|disabled)\(|\bwithKnownIssue\b|\bXCTSkip"#,
            broken: samples(
                in: "Tests/A/A.swift",
                "@Test(.enabled(if: isInstalled)) func `it runs now`() { check() }",
                "@Test(.disabled(\"later\")) func `it runs now`() { check() }",
                "let trait: ConditionTrait = .enabled(\"a\") { false }",
                "withKnownIssue { check() }"
            ),
            clean: samples(
                in: "Tests/A/A.swift",
                "@Test(.requires(.ffmpeg)) func `it runs now`() { check() }",
                "let isEnabled = view.enabled",
                "// .enabled(if: a)"
            )
        ),
        Rule(
            "dropped-refusal",
            remedy: """
                Let the error end the test with `try`, or expect a specific error. `try?` as a \
                statement passes in every case.
                """,
            scope: .exampleTests,
            part: \.code,
            pattern: #"(?:^[ \t]*|[{;:][ \t]*)(?:_ = )?try\?(?![^\n]*\bremoveItem\b)"#,
            broken: samples(
                in: "Examples/A/Tests/A.swift",
                "_ = try? client.perform(Tap())",
                "try? await client.synchronize()",
                "case 0: _ = try? client.perform(Tap())",
                "tasks.addTask { try? await client.synchronize() }"
            ),
            clean: samples(
                in: "Examples/A/Tests/A.swift",
                "defer { try? FileManager.default.removeItem(at: folder) }",
                "try await client.synchronize()",
                "let widget = try? SanguineCompanion(configuration)"
            )
        ),
        Rule(
            "any-error",
            remedy: "Expect a specific error: its type, and its code where it has one.",
            scope: .tests,
            part: \.code,
            pattern: #"""
                ^[ \t]*(?:try )?(?:await )?\#
                #(?:expect|require)\(\s*throws:\s*\(any Error\)\.self
                """#,
            broken: samples(
                in: "Tests/A/A.swift",
                "#expect(throws: (any Error).self) { try a() }",
                "await #expect(\n    throws: (any Error).self\n) { try a() }"
            ),
            clean: samples(
                in: "Tests/A/A.swift",
                "#expect(throws: Refusal.self) { try a() }",
                "let error = #expect(throws: (any Error).self) { try a() }\n#expect(error is B)",
                "let error: (any Error).Type = Refusal.self"
            )
        ),
        Rule(
            "asserts-nothing",
            remedy: "Expect in each test something that can fail.",
            scope: .tests,
            broken: samples(
                in: "Tests/A/A.swift",
                "@Test func `it runs`() { run() }",
                "@Test func `it runs`() { #expect(true) }",
                "@Test func `it runs`() { #expect(Bool(true)) }",
                "@Test func `it runs`() {\n    #expect(a)\n}\n@Test func `so`() {\n    run()\n}",
                "@Test(arguments: [f(1)])\nfunc `it runs`(\n    a: Int\n) async {\n    run()\n}",
                "@Test func `it runs`() { run() }\nfunc other() { #expect(run()) }"
            ),
            clean: samples(
                in: "Tests/A/A.swift",
                "@Test func `it runs`() { #expect(run() == 1) }",
                "@Test func `it runs`() throws { try #require(run()) }",
                "@Test func `it runs`() { Contract().expectAll() }",
                "@Test(arguments: [f(1)])\nfunc `it runs`(a: Int) {\n    if a > 1 {\n    }\n"
                    + "    #expect(run())\n}",
                "func helper() {}"
            )
        ) { file in
            let empty = try file.lines(
                matching: #"#(?:expect|require)\((?:true|Bool\(true\))\s*\)"#,
                in: \.code
            )
            let assertions = try file.lines(
                matching: #"""
                    #expect\b|#require\b|\bIssue\.record\(|\bconfirmation\(\#
                    |\b(?:expect|require|assert|verify|check)\w*\(
                    """#,
                in: \.code
            )
            let without = try file.tests().filter { test in
                !assertions.contains(where: test.contains)
            }
            return Set(empty + without.map(\.lowerBound)).sorted()
        },
    ]
}
