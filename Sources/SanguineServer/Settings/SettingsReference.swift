/// The documentation page of the settings, generated from ``Setting/all``.
public enum SettingsReference {
    /// Returns the page as Markdown.
    public static func markdown() -> String {
        var text = """
            # Settings

            A value is looked for on the command line, then in the environment, then in the YAML \
            file that `--config` or `SANGUINE_CONFIG` names; otherwise it has its default. A name \
            that is in no table here is refused in the file, and warned of in the environment. \
            `sanguine config` prints what is in effect, and where it comes from.

            | in the file | flag | environment | default | what it does, and what it may be |
            |---|---|---|---|---|

            """
        for setting in Setting.all {
            let value = setting.defaultText.isEmpty ? "none" : "`\(setting.defaultText)`"
            text += "| `\(setting.key)` | \(setting.flag.map { "`\($0)`" } ?? "") "
            text += "| `\(setting.environmentName)` | \(value) "
            text += "| \(setting.summary) Allowed: \(setting.allowed). |\n"
        }
        text += lists
        for field in FunctionSetting.Field.allCases {
            text += "| `\(field.rawValue)` | \(field.allowed) |\n"
        }
        text += "| `inputs.<name>` | \(FunctionSetting.allowedInput) |\n"
        text.removeLast()
        return text
    }

    /// The section about lists, which only the file can contain.
    private static let lists = """

        ## Quotas, collections, upstreams and functions

        They are named in the file only. A file that names any quota replaces the default \
        ones, and likewise for collections and functions. Once a collection has records, leave \
        its access as it is. The key of an upstream may stand in the environment instead: that \
        of `spare` in `SANGUINE_UPSTREAMS_SPARE_KEY`.

        ```yaml
        quotas:
          readings: 3               # how often from one midnight of the account to the next

        collections:
          notes:
            access: owner           # owner (default) or everyone: who may read
          posts:
            access: everyone
            indexes: [createdAt]    # the members by which records are found and ordered

        upstreams:                  # beside that of upstream.url, whose name is default
          spare:
            url: https://models.example.com/v1
            model: small
            video: frames           # file (default), or frames: pictures of it, by FFmpeg
            outputLimit: auto       # auto (default), max_tokens, max_completion_tokens, or none
            streamOptions: auto     # auto (default), true, or false

        functions:
          echo:
            kind: echo              # echo or upstream
            price: 1                # the same for every call, or, for kind upstream, by usage:
          ask:
            kind: upstream
            perMillionInput: 2000
            perMillionOutput: 8000
            perMillionCachedInput: 500   # default: as perMillionInput
            perMillionReasoning: 8000    # default: as perMillionOutput
            atLeast: 1              # default 1
            maxOutputTokens: 512    # default 512
            systemPrompt: Answer in two sentences.
          reading:
            kind: upstream
            quota: readings         # a unit of a quota, instead of a price or beside it
            inputs:                 # default: a string question
              kind: [face, palm, coffee]
              origin?: string       # one that may be left out
            prompt: Read this {{kind}}. {{origin}}
            cache: midnight         # none, midnight, session, forever, or a duration
            cachedPrice: 0          # what a kept answer costs
            upstreams: [default, spare]
            limits:
              runningPerAccount: 1
              repeatsPerMinute: 10
        ```

        | member of a function | what it may be |
        |---|---|

        """
}
