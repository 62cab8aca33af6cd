/// The documentation page of the settings, generated from ``Setting/all``.
public enum SettingsReference {
    /// Returns the page as Markdown.
    public static func markdown() -> String {
        var text = """
            # Settings

            A value is read from the command line, then from the environment, then from the YAML \
            file that `--config` or `SANGUINE_CONFIG` names; otherwise the default applies. An \
            unknown name is an error in the file and a warning in the environment. `sanguine \
            config` prints the values in effect and where they come from.

            | in the file | flag | environment | default | description and allowed values |
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
        text += identity
        for field in IdentitySetting.Field.allCases {
            text += "| `\(field.rawValue)` | \(field.allowed) |\n"
        }
        text.removeLast()
        return text
    }

    /// The section about identity providers, which only the file can contain.
    private static let identity = """

        ## Identity providers

        Only the file can declare them. Users sign in with the identity tokens (ID tokens) of \
        these OpenID providers. The providers `apple` and `google` need only the audiences: the \
        app's bundle id, or its client ids.

        ```yaml
        identity:
          apple:
            audiences: [com.example.app]
          example:
            issuer: https://login.example.com
            audiences: [app-1, app-2]
            keys: https://login.example.com/keys  # default: discovered from the issuer
            nonce: hashed         # any (default), or hashed: the token has the nonce's SHA-256
        ```

        | member of an identity provider | allowed values |
        |---|---|

        """

    /// The section about lists, which only the file can contain.
    private static let lists = """

        ## Quotas, products, collections, upstreams and functions

        Only the file can declare them. A file that declares any quota replaces the default \
        quotas; the same holds for collections and functions. The access of a collection that \
        has records cannot change from or to 'owner': the server does not start. After \
        another change of its access or 'readers', its lists are refused until they are \
        built again. The key of an upstream can also be set in the environment: \
        the key of `spare` as `SANGUINE_UPSTREAMS_SPARE_KEY`.

        ```yaml
        quotas:
          readings: 3               # per day, from midnight to midnight in the account's zone
          letters:
            limit: 10
            period: month           # day (default), week from Monday, or month
            premium: 100            # the limit of the plan premium; without it, premium has none
          drafts:
            limit: 20
            lifts: none             # the plans without a limit: premium (default), or none

        appStore:
          products:                 # by the product's identifier in App Store Connect
            com.example.tokens100: tokens 100      # each unit credits 100
            com.example.premium.monthly: plan premium
            com.example.pass: plan premium 30d     # for products without an end of their own

        collections:
          notes:
            access: owner           # who may read: owner (default), everyone, or readers
          posts:
            access: everyone
            indexes: [createdAt]    # the members that records can be found and ordered by
            blobs: [photo]          # the members that name files, which its readers may read
            publicBlobs: [cover]    # those that everyone may read without a token
            owner: author           # the member that the server sets to the owner's account
            timelines: [home by author in follows.followed including own]  # of followed authors
          likes:
            access: everyone
            indexes: [post]
            owner: author
            unique: [post+author]   # an account likes a post once
            counts: [post in posts.likes]  # the post's member likes is their number
          profiles:
            access: everyone
            search: [name]          # found by the beginning of the name
          follows:
            indexes: [followed]     # read by the timeline of posts
            unique: [followed]
          messages:
            access: readers
            readers: to             # the member that names the accounts that may read a record
            owner: from
            indexes: [createdAt]

        upstreams:                  # in addition to upstream.url, whose name is default
          spare:
            url: https://models.example.com/v1
            model: small
            video: frames           # file (default), or frames, extracted by FFmpeg
            outputLimit: auto       # auto (default), max_tokens, max_completion_tokens, or none
            streamOptions: auto     # auto (default), true, or false

        functions:
          echo:
            kind: echo              # echo or upstream
            price: 1                # the same for every call; for kind upstream also by usage:
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
            quota: readings         # a unit of a quota, instead of or in addition to a price
            inputs:                 # default: a string question
              kind: [face, palm, coffee]
              origin?: string       # optional
            prompt: Read this {{kind}}. {{origin}}
            cache: midnight         # none, midnight, session, forever, or a duration
            cachedPrice: 0          # the price of a cached answer
            upstreams: [default, spare]
            limits:
              runningPerAccount: 1
              repeatsPerMinute: 10
          chat:
            kind: upstream
            price: 2
            keepsHistory: true      # calls may name a thread, which stores question and answer
            history:                # the part of the thread that the model receives
              tokens: 4000          # default 4000
              messages: 40          # default 40
            titles: title           # the function that names a new thread
          title:
            kind: upstream
            price: 0
            inputs:
              question: string
              answer: string
            prompt: "Give this conversation a title of four words. {{question}} {{answer}}"
        ```

        | member of a function | allowed values |
        |---|---|

        """
}
