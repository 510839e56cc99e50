// Opened as files, pages may not fetch each other, so that the search shows titles without excerpts.
if (location.protocol === "file:" && window.DOCUMENTATION_OPTIONS) DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
