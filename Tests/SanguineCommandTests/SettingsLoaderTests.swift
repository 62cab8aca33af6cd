import Foundation
import SanguineModel
import SanguineServer
import TestSupport
import Testing

@testable import SanguineCommand

@Suite("Settings loader", .bounded)
struct SettingsLoaderTests {
    /// Loads settings with a file that contains the text, if any.
    private func load(
        flags: [String: String] = [:],
        environment: [String: String] = [:],
        yaml: String? = nil,
        otherVariables: Set<String> = []
    ) async throws -> SettingsLoader.Loaded {
        let path = FileManager.default.temporaryDirectory
            .appending(path: "sanguine-\(UUID().uuidString).yaml").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        if let yaml { try Data(yaml.utf8).write(to: URL(filePath: path)) }
        return try await SettingsLoader(
            flags: flags,
            environment: environment,
            file: yaml == nil ? nil : path,
            otherVariables: otherVariables
        ).load()
    }

    /// Returns the problems of loading.
    private func problems(
        flags: [String: String] = [:],
        environment: [String: String] = [:],
        yaml: String? = nil
    ) async throws -> [SettingsError.Problem] {
        do {
            _ = try await load(flags: flags, environment: environment, yaml: yaml)
            return []
        } catch let error as SettingsError {
            return error.problems
        }
    }

    private func source(_ key: String, in loaded: SettingsLoader.Loaded) -> SettingsLoader.Source? {
        loaded.effective.first { $0.key == key }?.source
    }

    @Test func `the defaults apply without any source`() async throws {
        let loaded = try await load()
        #expect(loaded.settings == ServerSettings())
        #expect(loaded.warnings.isEmpty)
        #expect(loaded.effective.allSatisfy { $0.source == .default })
        #expect(loaded.effective.prefix(Setting.all.count).map(\.key) == Setting.all.map(\.key))
        #expect(loaded.effective.contains { $0.key == "quotas.readings" && $0.value == "3" })
    }

    @Test func `flags override the environment, which overrides the file`() async throws {
        let yaml = """
            http:
              port: 1
              host: file
            upstream:
              model: file
              timeout: 7s
            """
        let loaded = try await load(
            flags: ["http.port": "3"],
            environment: [
                "SANGUINE_HTTP_PORT": "2", "SANGUINE_HTTP_HOST": "environment",
                "SANGUINE_HTTP_ADMIN_PORT": "9", "SANGUINE_UPSTREAM_URL": "http://a.b",
            ],
            yaml: yaml
        )
        #expect(loaded.settings.http.port == 3)
        #expect(loaded.settings.http.host == "environment")
        #expect(loaded.settings.http.adminPort == 9)
        #expect(loaded.settings.upstream.model == "file")
        #expect(loaded.settings.upstream.timeout == .seconds(7))
        #expect(loaded.settings.upstream.url == "http://a.b")
        #expect(source("http.port", in: loaded) == .flag("--port"))
        #expect(source("http.host", in: loaded) == .environment("SANGUINE_HTTP_HOST"))
        guard case .file = source("upstream.model", in: loaded) else {
            Issue.record("The model is not from the file.")
            return
        }
        #expect(source("http.adminHost", in: loaded) == .default)
    }

    @Test func `a secret is read and printed as dots`() async throws {
        let loaded = try await load(environment: ["SANGUINE_UPSTREAM_KEY": "sk-do-not-tell"])
        #expect(loaded.settings.upstream.key?.reveal() == "sk-do-not-tell")
        #expect(loaded.effective.first { $0.key == "upstream.key" }?.value == "•••")
        #expect(!"\(loaded)".contains("sk-do-not-tell"))
    }

    @Test func `a secret in the file does not appear in a problem`() async throws {
        let bad = try await problems(yaml: "upstream:\n  key: sk do not tell")
        #expect(bad.count == 1)
        #expect(!"\(bad)".contains("sk do"))
        let broken = try await problems(yaml: "upstream:\n  key: \"sk-do-not-tell\n  x: [")
        #expect(broken.count == 1)
        #expect(!"\(broken)".contains("sk-do-not-tell"))
    }

    @Test func `lists are sequences in the file, and separated by commas elsewhere`() async throws {
        let yaml = "http:\n  corsOrigins:\n    - https://a.example\n    - http://localhost:3000"
        let environment = ["SANGUINE_HTTP_CORS_ORIGINS": "https://a.example, http://localhost:3000"]
        let fromFile = try await load(yaml: yaml)
        let fromEnvironment = try await load(environment: environment)
        let both = ["https://a.example", "http://localhost:3000"]
        #expect(fromFile.settings.http.corsOrigins == both)
        #expect(fromEnvironment.settings.http.corsOrigins == both)

        let fromFlag = try await load(flags: ["http.corsOrigins": "https://a.example"])
        let scalar = try await load(yaml: "http:\n  corsOrigins: https://a.example")
        #expect(fromFlag.settings.http.corsOrigins == ["https://a.example"])
        #expect(scalar.settings.http.corsOrigins == ["https://a.example"])
    }

    @Test func `collections in the file replace the default ones`() async throws {
        let yaml = """
            collections:
              habits:
                indexes: [day, createdAt]
              teams:
                access: everyone
                indexes: name
              drafts: ~
            """
        let loaded = try await load(yaml: yaml)
        #expect(
            loaded.settings.collections == [
                RecordCollection("drafts"),
                RecordCollection("habits", indexes: ["day", "createdAt"]),
                RecordCollection("teams", access: .everyone, indexes: ["name"]),
            ]
        )
        #expect(
            loaded.effective.contains {
                $0.key == "collections.habits.indexes" && $0.value == "day, createdAt"
            }
        )
    }

    @Test func `members of collections that name files are read from the file`() async throws {
        let yaml = """
            collections:
              posts:
                access: everyone
                blobs: [photo, gallery]
                publicBlobs: cover
            """
        let loaded = try await load(yaml: yaml)
        let blobs: [BlobField] = ["photo", "gallery", .publicly("cover")]
        #expect(
            loaded.settings.collections == [
                RecordCollection("posts", access: .everyone, blobs: blobs)
            ]
        )
        #expect(
            loaded.effective.contains {
                $0.key == "collections.posts.publicBlobs" && $0.value == "cover"
            }
        )
    }

    @Test func `a collection in the file declares its relations`() async throws {
        let yaml = """
            collections:
              posts:
                access: everyone
                indexes: [createdAt]
                owner: author
                timelines: [home by author in follows.followed, \
            all by author in follows.followed including own]
              follows:
                indexes: [followed]
              messages:
                access: readers
                readers: to
                owner: from
                indexes: [createdAt]
              likes:
                access: everyone
                owner: author
                unique: [post+author]
                search: [note]
                counts: [post in posts.likes]
            """
        let loaded = try await load(yaml: yaml)
        #expect(
            loaded.settings.collections == [
                RecordCollection("follows", indexes: ["followed"]),
                RecordCollection(
                    "likes",
                    access: .everyone,
                    owner: "author",
                    unique: [["post", "author"]],
                    search: ["note"],
                    counts: [RecordCounter(by: "post", in: "posts", as: "likes")]
                ),
                RecordCollection(
                    "messages",
                    access: .readers,
                    indexes: ["createdAt"],
                    owner: "from",
                    readers: "to"
                ),
                RecordCollection(
                    "posts",
                    access: .everyone,
                    indexes: ["createdAt"],
                    owner: "author",
                    timelines: [
                        RecordTimeline("home", by: "author", in: "follows", naming: "followed"),
                        RecordTimeline(
                            "all",
                            by: "author",
                            in: "follows",
                            naming: "followed",
                            includesOwn: true
                        ),
                    ]
                ),
            ]
        )
        let timelines = loaded.effective.first { $0.key == "collections.posts.timelines" }
        #expect(
            timelines?.value == """
                home by author in follows.followed, \
                all by author in follows.followed including own
                """
        )
        let counts = loaded.effective.first { $0.key == "collections.likes.counts" }
        #expect(counts?.value == "post in posts.likes")
    }

    @Test(arguments: [
        "Habits:\n    access: owner", "habits:\n    access: nobody",
        "habits:\n    indexes: [a, a]", "habits:\n    colour: red",
        "habits:\n    blobs: [a, a]", "habits:\n    publicBlobs: [a]",
        "habits:\n    owner: [a, b]", "habits:\n    unique: [a+a]",
        "habits:\n    search: [a, a]", "habits:\n    counts: [a of b]",
        "habits:\n    indexes: [a~b]", "habits:\n    readers: to",
        "habits:\n    access: readers", "habits:\n    access: readers\n    readers: [a, b]",
        "habits:\n    timelines: [home by a in b.c]",
        "habits:\n    access: everyone\n    timelines: [home by a in b.c]",
        "habits:\n    access: everyone\n    indexes: [createdAt]\n"
            + "    timelines: [home of a in b.c]",
        "habits:\n    access: everyone\n    indexes: [createdAt]\n"
            + "    timelines: [home by a in b.c including all]",
    ])
    func `an invalid collection is refused`(text: String) async throws {
        #expect(try await !problems(yaml: "collections:\n  \(text)").isEmpty)
    }

    @Test func `quotas and functions in the file replace the default ones`() async throws {
        let yaml = """
            quotas:
              drafts: 5
            functions:
              translate:
                kind: upstream
                perMillionInput: 10
                perMillionOutput: 20
                atLeast: 2
                maxOutputTokens: 99
                systemPrompt: |
                  Translate.
                  Say nothing else.
              back:
                kind: echo
                price: 4
            """
        let loaded = try await load(yaml: yaml)
        #expect(loaded.settings.quotas == [QuotaSetting(name: "drafts", perDay: 5)])
        let price = Price.usage(perMillionInput: 10, perMillionOutput: 20, atLeast: 2)
        let translate = FunctionSetting(
            name: "translate",
            kind: .upstream,
            price: price,
            maxOutputTokens: 99,
            systemPrompt: "Translate.\nSay nothing else.\n"
        )
        let back = FunctionSetting(name: "back", kind: .echo, price: .fixed(4))
        #expect(loaded.settings.functions == [back, translate])
        #expect(loaded.effective.contains { $0.key == "functions.back.price" && $0.value == "4" })
    }

    @Test(arguments: [
        "kind: banana\n    price: 1", "price: 1", "kind: echo", "kind: echo\n    price: many",
        "kind: upstream\n    price: 1\n    atLeast: 1", "kind: upstream\n    perMillionInput: 1",
        "kind: echo\n    perMillionInput: 1\n    perMillionOutput: 1",
        "kind: echo\n    price: -1", "kind: echo\n    price: 1\n    maxOutputTokens: 0",
    ])
    func `an invalid function is refused`(members: String) async throws {
        let problems = try await problems(yaml: "functions:\n  f:\n    \(members)")
        #expect(!problems.isEmpty)
        #expect("\(problems)".contains("functions.f."))
    }

    @Test func `functions have separate inputs, limits and upstreams`() async throws {
        let yaml = """
            upstream:
              url: https://models.example.com
              fallbacks: [spare]
            upstreams:
              spare:
                url: https://spare.example.com/v1
                model: small
            functions:
              reading:
                kind: upstream
                quota: readings
                cacheFacts: [birth]
                inputs:
                  kind: [face, palm]
                  origin?: string
                prompt: "Read {{kind}} of {{settings.birth}}. {{origin}}"
                upstreams: [spare, default]
                attachments: {count: 1, types: [image/png]}
                limits:
                  repeatsPerMinute: 5
                  timeout: 20s
            openai:
              function: reading
            """
        let loaded = try await load(
            environment: ["SANGUINE_UPSTREAMS_SPARE_KEY": "k"],
            yaml: yaml
        )
        let spare = UpstreamSetting(
            name: "spare",
            url: "https://spare.example.com/v1",
            key: Secret("k"),
            model: "small"
        )
        #expect(loaded.settings.upstreams == [spare])
        #expect(loaded.settings.upstream.fallbacks == ["spare"])
        #expect(loaded.warnings.isEmpty)
        let reading = try #require(loaded.settings.functions.first)
        #expect(
            reading.inputs == [
                InputMember("kind", .choice(["face", "palm"])),
                InputMember("origin", isOptional: true),
            ]
        )
        #expect(reading.rules.price == .quota("readings"))
        #expect(reading.rules.cache == .untilChange(of: "birth"))
        #expect(reading.rules.attachments == AttachmentRules(count: 1, types: ["image/png"]))
        #expect(reading.rules.limits.repeatsPerMinute == 5)
        #expect(reading.rules.limits.timeout == .seconds(20))
        #expect(reading.upstreams == ["spare", "default"])
        let key = loaded.effective.first { $0.key == "upstreams.spare.key" }
        #expect(key?.value == Secret.mask)
        let kind = loaded.effective.first { $0.key == "functions.reading.inputs.kind" }
        #expect(kind?.value == "face, palm")
    }

    @Test func `identity providers have issuers, audiences, keys and a form of the nonce`()
        async throws
    {
        let yaml = """
            identity:
              apple:
                audiences: [com.example.app, com.example.web]
              example:
                issuer: https://login.example.com
                audiences: app-1
                keys: https://login.example.com/keys
                nonce: hashed
            """
        let loaded = try await load(yaml: yaml)
        let example = IdentitySetting(
            name: "example",
            issuer: "https://login.example.com",
            audiences: ["app-1"],
            keys: "https://login.example.com/keys",
            nonce: .hashed
        )
        let apple = IdentitySetting(
            name: "apple",
            audiences: ["com.example.app", "com.example.web"]
        )
        #expect(loaded.settings.identity == [apple, example])
        #expect(loaded.warnings.isEmpty)
        let issuer = loaded.effective.first { $0.key == "identity.apple.issuer" }
        #expect(issuer?.value == "https://appleid.apple.com")
    }

    @Test(arguments: [
        "other:\n    audiences: [a]", "apple:\n    issuer: https://appleid.apple.com",
        "apple:\n    audiences: [a b]", "apple:\n    audiences: [a]\n    nonce: none",
        "apple:\n    audiences: [a]\n    keys: http://keys.example.com",
        "apple:\n    audiences: [a]\n    issuer: ftp://x", "apple:\n    audience: a",
        "apple name:\n    audiences: [a]",
    ])
    func `an invalid identity provider is refused`(members: String) async throws {
        let problems = try await problems(yaml: "identity:\n  \(members)")
        #expect(!problems.isEmpty)
        #expect("\(problems)".contains("identity"))
    }

    @Test func `the sample of the guide to providers is loaded unchanged`() async throws {
        let file = URL(filePath: #filePath)
            .appending(path: "../../../Sources/SanguineServer/SanguineServer.docc/Providers.md")
            .standardized
        let page = try String(contentsOf: file, encoding: .utf8)
        let yaml = try #require(page.components(separatedBy: "```yaml\n").last)
            .components(separatedBy: "```")[0]
        let loaded = try await load(yaml: yaml)
        #expect(loaded.warnings.isEmpty)
        #expect(loaded.settings.upstream.outputLimit == "max_completion_tokens")
        #expect(loaded.settings.upstream.streamOptions == "true")
        #expect(loaded.settings.upstreams.count == 9)
        let anthropic = loaded.settings.upstreams.first { $0.name == "anthropic" }
        #expect(anthropic?.outputLimit == .maxTokens && anthropic?.streamOptions == .always)
    }

    @Test func `an OpenAI route needs an existing function with a model`() async throws {
        for name in ["nobody", "echo"] {
            let problems = try await problems(yaml: "openai:\n  function: \(name)")
            #expect("\(problems)".contains("openai.function"))
        }
        #expect(try await problems(yaml: "openai:\n  function: \"\"").isEmpty)
    }

    @Test func `unknown names in the file are refused with the closest known one`() async throws {
        let yaml = """
            http:
              prot: 1
            functions:
              f: {kind: echo, price: 1, sytemPrompt: x}
            htpp:
              port: 1
            """
        let text = try await problems(yaml: yaml).map(\.description).joined(separator: "\n")
        #expect(text.contains("'http.prot'"))
        #expect(text.contains("mean 'http.port'"))
        #expect(text.contains("mean 'functions.f.systemPrompt'"))
        #expect(text.contains("'htpp.port'"))
    }

    @Test func `unknown names in the environment cause warnings`() async throws {
        let loaded = try await load(
            environment: [
                "SANGUINE_HTTP_PROT": "1", "SANGUINE_STATE": "x", "HOME": "/",
                "SANGUINE_CONFIG": "",
            ],
            otherVariables: ["SANGUINE_STATE"]
        )
        #expect(loaded.warnings.count == 1)
        #expect(loaded.warnings.first?.contains("SANGUINE_HTTP_PORT") == true)
    }

    @Test func `all problems are reported at once`() async throws {
        let problems = try await problems(
            flags: ["http.port": "x"],
            environment: ["SANGUINE_LIMITS_IDLE_TIMEOUT": "soon"],
            yaml: "log:\n  level: [loud]\nquotas:\n  readings: often\nnonsense: 1"
        )
        #expect(problems.count == 5)
    }

    @Test(arguments: ["", "# Nothing yet.\n", "---\n", "http:\n", "quotas: ~\n"])
    func `a file without settings is accepted`(yaml: String) async throws {
        let loaded = try await load(yaml: yaml)
        #expect(loaded.settings == ServerSettings())
    }

    @Test(arguments: ["- a\n- b\n", "just text", "a: [", "http: {port: 1}\nhttp: {port: 2}\n"])
    func `a file that is not a mapping is refused`(yaml: String) async throws {
        let problems = try await problems(yaml: yaml)
        guard case .unreadable = problems.first else {
            Issue.record("The file was not refused: \(problems)")
            return
        }
    }

    @Test(arguments: [
        ("http.port: 1\nhttp:\n  port: 2\n", "http.port", "lines 1 and 3"),
        ("http: {port: 1}\nhttp.port: 2\n", "http.port", "lines 1 and 2"),
        (
            "# A comment.\nmail.smtp:\n  host: a # once\nmail:\n  smtp.host: b\n",
            "mail.smtp.host", "lines 3 and 5"
        ),
        ("\"http.port\": 1\n'http':\n  'port': 2\n", "http.port", "lines 1 and 3"),
    ])
    func `a name that stands twice is refused with both places`(
        yaml: String,
        name: String,
        lines: String
    ) async throws {
        let problems = try await problems(yaml: yaml)
        #expect(problems.count == 1)
        let text = "\(problems.first.map { "\($0)" } ?? "")"
        #expect(text.contains("'\(name)'") && text.contains(lines), "\(text)")
    }

    @Test func `names that begin alike do not stand twice`() async throws {
        let loaded = try await load(yaml: "http.port: 5\nhttp:\n  adminPort: 6\n")
        #expect(loaded.settings.http.port == 5 && loaded.settings.http.adminPort == 6)
    }

    @Test func `a missing file is refused from any source`() async throws {
        for loader in [
            SettingsLoader(environment: [:], file: "/nowhere/sanguine.yaml"),
            SettingsLoader(environment: ["SANGUINE_CONFIG": "/nowhere/sanguine.yaml"]),
        ] {
            let error = await #expect(throws: SettingsError.self) { try await loader.load() }
            #expect(error?.description.contains("/nowhere/sanguine.yaml") == true)
        }
    }

    @Test func `an underscored number and an empty optional are accepted`() async throws {
        let loaded = try await load(
            environment: ["SANGUINE_HTTP_ADMIN_PORT": "", "SANGUINE_ACCOUNTS_GRANT": "1_000"],
            yaml: "http:\n  adminPort: 5"
        )
        #expect(loaded.settings.http.adminPort == nil)
        #expect(loaded.settings.accounts.grant == 1_000)
    }
}
