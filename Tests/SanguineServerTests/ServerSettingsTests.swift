import SanguineModel
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Server settings", .bounded)
struct ServerSettingsTests {
    @Test func `the defaults are valid and match the protocol`() throws {
        let settings = ServerSettings()
        try settings.validate()
        #expect(settings.http.effectiveAdminPort == settings.http.port + 1)
        #expect(settings.accounts.unit == "tokens")
        #expect(settings.accounts.grant == 100)
        #expect(settings.quotas == [QuotaSetting(name: "readings", perDay: 3)])
        #expect(settings.functions.map(\.name) == ["echo", "ask", "daily"])
        #expect(settings.functions[0].price == .fixed(1))
        #expect(settings.tokens.accessLifetime == .seconds(900))
        #expect(settings.idempotencyKeep == .seconds(48 * 3_600))
        #expect(settings.holdsDuration == .seconds(600))
        #expect(try settings.upstream.configuration() == nil)
    }

    @Test func `if the system chooses the port, it also chooses the admin port`() {
        var settings = ServerSettings()
        settings.http.port = 0
        #expect(settings.http.effectiveAdminPort == 0)
        settings.http.adminPort = 9_000
        #expect(settings.http.effectiveAdminPort == 9_000)
    }

    @Test func `every setting has unique names and a summary`() {
        let all = Setting.all
        #expect(Set(all.map(\.key)).count == all.count)
        #expect(Set(all.map(\.environmentName)).count == all.count)
        let flags = all.compactMap(\.flag)
        #expect(Set(flags).count == flags.count)
        for setting in all {
            #expect(setting.summary.hasSuffix("."), "\(setting.key)")
            #expect(setting.environmentName.hasPrefix("SANGUINE_"))
        }
    }

    @Test(arguments: [
        ("upstream.url", "SANGUINE_UPSTREAM_URL"), ("upstream.key", "SANGUINE_UPSTREAM_KEY"),
        ("upstream.model", "SANGUINE_UPSTREAM_MODEL"), ("http.port", "SANGUINE_HTTP_PORT"),
        ("http.adminPort", "SANGUINE_HTTP_ADMIN_PORT"),
    ])
    func `names in the environment follow from the key`(key: String, name: String) throws {
        let setting = try #require(Setting.all.first { $0.key == key })
        #expect(setting.environmentName == name)
    }

    @Test(arguments: Setting.all.map(\.key))
    func `a default that is written and read again is unchanged`(key: String) throws {
        let setting = try #require(Setting.all.first { $0.key == key })
        var settings = ServerSettings()
        // Sets another value first, if the setting accepts one of these.
        for other in ["7", "1h", "true", "false", "debug", "Europe/Vienna", "de", "http://a.b"] {
            _ = setting.set(other, in: &settings)
        }
        #expect(setting.set(setting.defaultText, in: &settings))
        #expect(settings == ServerSettings())
    }

    @Test(arguments: [
        ("http.port", "-1"), ("http.port", "65536"), ("http.port", "8080x"), ("http.port", ""),
        ("http.port", "+1"), ("http.host", ""), ("http.corsOrigins", "https://a.b,nonsense"),
        ("limits.requestTimeout", "30"), ("limits.requestTimeout", "0s"),
        ("limits.requestTimeout", "99999999999999h"), ("accounts.defaultTimeZone", "Mars/Base"),
        ("accounts.defaultLanguage", "x"), ("upstream.url", "localhost"), ("log.level", "loud"),
        ("log.access", "maybe"), ("upstream.key", "two words"), ("accounts.grant", "-5"),
    ])
    func `an invalid value changes nothing`(key: String, value: String) throws {
        let setting = try #require(Setting.all.first { $0.key == key })
        var settings = ServerSettings()
        #expect(!setting.set(value, in: &settings))
        #expect(settings == ServerSettings())
    }

    @Test func `a refusal names setting, value and allowed values, and masks secrets`() throws {
        let port = try #require(Setting.all.first { $0.key == "http.port" })
        #expect(
            "\(port.refusal(of: "x", source: "flag --port"))"
                == "'http.port' cannot be “x” (flag --port). "
                + "Allowed: a whole number from 0 to 65535."
        )
        let key = try #require(Setting.all.first { $0.key == "upstream.key" })
        #expect(!"\(key.refusal(of: "sk-tell", source: "file"))".contains("sk-tell"))
    }

    @Test func `validation reports every error`() {
        var settings = ServerSettings()
        settings.http.adminPort = 8_080
        settings.limits.functionCalls = 0
        settings.quotas += [QuotaSetting(name: "readings", perDay: 1)]
        settings.quotas += [QuotaSetting(name: "a/b", perDay: -1)]
        settings.functions[0].maxOutputTokens = 0
        settings.functions[1].kind = .echo
        let error = #expect(throws: SettingsError.self) { try settings.validate() }
        let text = error?.description ?? ""
        for name in [
            "'limits.functionCalls'", "'http.adminPort'", "“readings”", "“a/b”", "'quotas.a/b'",
            "'functions.echo.maxOutputTokens'", "'functions.ask.price'", "'openai.function'",
        ] {
            #expect(text.contains(name), "\(name) is missing in: \(text)")
        }
        #expect(error?.problems.count == 8)
    }

    @Test func `a name of an admin token has one role`() {
        var settings = ServerSettings()
        settings.admin.tokens = ["anna:support", "board:read", "anna:owner"]
        let error = #expect(throws: SettingsError.self) { try settings.validate() }
        #expect(error?.description.contains("anna") == true)
        settings.admin.tokens = ["anna:support", "board:read"]
        #expect(throws: Never.self) { try settings.validate() }
    }

    @Test func `a certificate requires its key, and a key its certificate`() {
        var settings = ServerSettings()
        settings.http.tlsCertificate = "certificate.pem"
        let keyless = #expect(throws: SettingsError.self) { try settings.validate() }
        #expect(keyless?.description.contains("'http.tlsKey'") == true)
        (settings.http.tlsCertificate, settings.http.tlsKey) = (nil, "key.pem")
        let bare = #expect(throws: SettingsError.self) { try settings.validate() }
        #expect(bare?.description.contains("'http.tlsCertificate'") == true)
        settings.http.tlsCertificate = "certificate.pem"
        #expect(throws: Never.self) { try settings.validate() }
    }

    @Test(arguments: [
        ("http.trustedProxies", "10.0.0.0/8, ::1", true), ("http.trustedProxies", "proxy", false),
        ("http.adminHosts", "metrics.internal, 10.0.0.1", true),
        ("http.adminHosts", "metrics.internal:80", false), ("http.adminHosts", "http://a", false),
    ])
    func `proxies are addresses, and hosts are names without ports`(
        key: String,
        text: String,
        isAllowed: Bool
    ) throws {
        var settings = ServerSettings()
        let setting = try #require(Setting.all.first { $0.key == key })
        #expect(setting.set(text, in: &settings) == isAllowed)
        #expect((settings == ServerSettings()) == !isAllowed)
    }

    @Test func `the last port leaves none for the admin port`() {
        var settings = ServerSettings()
        settings.http.port = 65_535
        #expect(throws: SettingsError.self) { try settings.validate() }
        settings.http.adminPort = 1_024
        #expect(throws: Never.self) { try settings.validate() }
    }

    @Test(arguments: ["500ms", "30s", "15m", "36h", "60d", "1500ms", "0s"])
    func `durations are written as they are read`(text: String) throws {
        let duration = try #require(DurationText.duration(text))
        #expect(DurationText.text(duration) == text)
    }

    @Test(arguments: ["", "s", "30", "1.5s", "-1s", "1 s", "1w", "9999999999999d", "٣s"])
    func `invalid durations are refused`(text: String) {
        #expect(DurationText.duration(text) == nil)
    }

    @Test(arguments: [
        ("http.prot", "http.port"), ("http.admin_port", "http.adminPort"),
        ("upstream.modle", "upstream.model"), ("completely.different", nil),
    ])
    func `a misspelled name suggests the nearest setting`(name: String, nearest: String?) {
        #expect(NearestName.of(name, among: Setting.all.map(\.key)) == nearest)
    }

    @Test func `the settings page has a row for each setting`() {
        let page = SettingsReference.markdown()
        for setting in Setting.all { #expect(page.contains("| `\(setting.key)` |")) }
        for field in FunctionSetting.Field.allCases { #expect(page.contains(field.rawValue)) }
    }
}
