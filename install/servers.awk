# Reads `nginx -T` and prints a line for each address of each server block, tab-separated:
#
#     1 or 0: stile's line is in it    file:line    listen    flags (ssl, proxy_protocol)    name
#
# listen is as curl connects to it. A server with stile's line may have it from a file of its own
# that includes it. prefix is nginx's configuration directory with a slash.

/^# configuration file .*:$/ {
    file = substr($0, 22, length($0) - 22)
    files[file] = 1
    begun = NR
    depth = words = 0
    next
}
{ statement_line($0 " ") }

END {
    protects[prefix "snippets/stile.conf"] = protects[prefix "snippets/stile-closed.conf"] = 1
    do {    # files that include such a file protect what includes them
        more = 0
        for (i = 1; i <= loose; i++)
            if (!(loose_file[i] in protects) && reaches(loose_pattern[i])) {
                protects[loose_file[i]] = 1
                more = 1
            }
    } while (more)
    for (s = 1; s <= servers; s++) {
        stile = 0
        n = split(includes[s], patterns, "\n")
        for (i = 1; i <= n; i++) if (patterns[i] != "" && reaches(patterns[i])) stile = 1
        if (listens[s] == "") listens[s] = "80\t\n"
        n = split(listens[s], l, "\n")
        for (i = 1; i < n; i++) {
            split(l[i], part, "\t")
            address = connect(part[1])
            name = names[s] == "" ? address : names[s]
            if (address ~ /^unix:/ && name == address) name = "localhost"
            sub(/:[0-9]+$/, "", name)
            printf "%d\t%s\t%s\t%s\t%s\n", stile, at[s], address, part[2] == "" ? "-" : part[2], name
        }
    }
}

# statement_line cuts a line into words, and runs what ; { and } end.
function statement_line(text,    c, i, n) {
    n = length(text)
    for (i = 1; i <= n; i++) {
        c = substr(text, i, 1)
        if (quote != "") {
            if (c == "\\") { word = word substr(text, ++i, 1); continue }
            if (c == quote) quote = ""; else word = word c
            continue
        }
        if (c == "\\") { word = word c substr(text, ++i, 1); inside = 1; continue }
        if (!inside && c == "#") return
        if (!inside && (c == "\"" || c == "'")) { quote = c; inside = 1; continue }
        if (c == "{" && inside && substr(word, length(word)) == "$") { word = word c; brace = 1; continue }
        if (c == "}" && brace) { word = word c; brace = 0; continue }
        if (c ~ /[ \t\r;{}]/) {
            if (inside) words_of[++words] = word
            word = ""; inside = 0
            if (c == ";") { directive(); words = 0 }
            if (c == "{") { open_block(); words = 0 }
            if (c == "}") { if (depth > 0) depth--; words = 0 }
            continue
        }
        inside = 1
        word = word c
    }
}

function open_block() {
    block[++depth] = words_of[1]
    if (words_of[1] == "server" && words == 1 && (depth == 1 || block[depth - 1] == "http")) {
        current = ++servers
        at[current] = file ":" (NR - begun)
    }
}

function directive(    i, flags, name) {
    if (words_of[1] == "include" && (depth == 0 || block[depth] != "server")) {
        if (depth == 0) { loose_file[++loose] = file; loose_pattern[loose] = words_of[2] }
        return
    }
    if (depth == 0 || block[depth] != "server" || (depth > 1 && block[depth - 1] != "http")) return
    if (words_of[1] == "include") includes[current] = includes[current] words_of[2] "\n"
    if (words_of[1] == "listen") {
        for (i = 3; i <= words; i++) {
            if (words_of[i] == "quic") return    # HTTP/3: there is a listen without it beside
            if (words_of[i] == "ssl" || words_of[i] == "proxy_protocol") flags = flags words_of[i] ","
        }
        # IPv4 first: not every machine has the other.
        if (words_of[2] ~ /^\[/) listens[current] = listens[current] words_of[2] "\t" flags "\n"
        else listens[current] = words_of[2] "\t" flags "\n" listens[current]
    }
    if (words_of[1] == "server_name")
        for (i = 2; i <= words && names[current] == ""; i++) {
            name = words_of[i]
            sub(/^\*?\./, name ~ /^\*/ ? "www." : "", name)
            if (name ~ /^[A-Za-z0-9][A-Za-z0-9.-]*$/) names[current] = name
        }
}

# connect turns what listen names into an address to connect to.
function connect(listen) {
    if (listen ~ /^unix:/) return listen
    if (listen ~ /^[0-9]+$/) return "127.0.0.1:" listen
    if (listen !~ /:[0-9]+$/ || listen ~ /^\[[^\]]*\]$/) listen = listen ":80"
    sub(/^(\*|0\.0\.0\.0):/, "127.0.0.1:", listen)
    sub(/^\[::\]:/, "[::1]:", listen)
    return listen
}

# reaches tells whether an include's pattern takes in a file that protects.
function reaches(pattern,    f) {
    if (pattern !~ /^\//) pattern = prefix pattern
    gsub(/[.+(){}^$|\\]/, "\\\\&", pattern)
    gsub(/\*/, "[^/]*", pattern)
    gsub(/\?/, "[^/]", pattern)
    for (f in protects) if (f ~ "^" pattern "$") return 1
    return 0
}
